"""What Airflow's configuration says of Tidegate, read without Airflow."""

import pytest

from tidegate.config.airflow_cfg import airflow_home, airflow_options
from tidegate.model.errors import WrongDefinitionError

KNOWN = ("home", "ledger", "operators")
PASSWORD = "hunter2"


@pytest.fixture
def write(tmp_path):
    """Writes airflow.cfg, and gives the environment that leads to it."""

    def written(text):
        (tmp_path / "airflow.cfg").write_text(text)
        return {"AIRFLOW_HOME": str(tmp_path)}

    return written


def values(environ):
    return {name: given.value for name, given in airflow_options(environ, KNOWN).items()}


def test_no_file_says_nothing(tmp_path):
    assert airflow_options({"AIRFLOW_HOME": str(tmp_path)}, KNOWN) == {}
    assert airflow_options({"AIRFLOW_HOME": str(tmp_path / "none")}, KNOWN) == {}
    assert airflow_options({"AIRFLOW_CONFIG": str(tmp_path / "none.cfg")}, KNOWN) == {}


def test_a_file_by_another_name(tmp_path, write):
    write("[tidegate]\nhome = /not/this\n")
    (tmp_path / "other.cfg").write_text("[tidegate]\nHOME = /srv\n")
    assert values({"AIRFLOW_HOME": str(tmp_path), "AIRFLOW_CONFIG": "$AIRFLOW_HOME/other.cfg"}) == {"home": "/srv"}


def test_airflow_s_folder_is_airflow_below_the_user_s_home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    assert airflow_home({}) == airflow_home({"AIRFLOW_HOME": ""}) == tmp_path / "airflow"
    assert airflow_home({"AIRFLOW_HOME": "~/mine"}) == tmp_path / "mine"


@pytest.mark.parametrize("name", ["AIRFLOW_HOME", "AIRFLOW_CONFIG"])
def test_a_relative_place_is_another_one_for_each_process(name):
    with pytest.raises(WrongDefinitionError, match=f"{name} is mine, .*write the whole path"):
        airflow_options({name: "mine"}, KNOWN)


def test_a_percent_sign_is_doubled_and_variables_stand_for_their_values(write, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    environ = write("[tidegate]\nledger = postgresql://u:a%%40b@db/${NAME}\nhome = ~/x\noperators = $NOBODY\n")
    assert values(environ | {"NAME": "50%$OTHER", "OTHER": "x"}) == {
        "ledger": "postgresql://u:a%40b@db/50%x",
        "home": f"{tmp_path}/x",
        "operators": "$NOBODY",
    }


def test_a_variable_counts_before_the_file_and_has_no_percent_signs_to_double(write):
    environ = write("[tidegate]\nledger = sqlite:///file.db\nhome = /srv\n")
    found = airflow_options(environ | {"AIRFLOW__TIDEGATE__LEDGER": "sqlite:///50%.db"}, KNOWN)
    assert (found["ledger"].value, found["ledger"].origin) == ("sqlite:///50%.db", "AIRFLOW__TIDEGATE__LEDGER")
    assert found["home"].origin == f"[tidegate] home in {environ['AIRFLOW_HOME']}/airflow.cfg"


def test_what_is_empty_is_not_said(write):
    assert values(write("[tidegate]\nledger =\n") | {"AIRFLOW__TIDEGATE__HOME": ""}) == {}


def test_options_of_every_section_are_no_mistake(write):
    assert values(write("[DEFAULT]\nfolder = /srv\n[tidegate]\nhome = %(folder)s/x\n")) == {"home": "/srv/x"}


@pytest.mark.parametrize("option", ["ledger_cmd", "ledger_secret", "home_cmd"])
def test_commands_and_secrets_are_refused_with_the_remedy(write, option):
    remedy = f"set TIDEGATE_{option.partition('_')[0].upper()}"
    with pytest.raises(WrongDefinitionError, match=rf"\[tidegate\] {option} in .*airflow.cfg .*{remedy}"):
        values(write(f"[tidegate]\n{option} = x\n"))
    with pytest.raises(WrongDefinitionError, match=f"AIRFLOW__TIDEGATE__{option.upper()} .*{remedy}"):
        values(write("") | {f"AIRFLOW__TIDEGATE__{option.upper()}": "x"})


def test_an_unknown_option_is_refused_with_the_nearest_but_a_variable_of_ours_is_anybody_s(write):
    with pytest.raises(
        WrongDefinitionError, match=r"\[tidegate\] leger in .*did you mean ledger\?.*home, ledger, operators"
    ):
        values(write("[tidegate]\nleger = x\n"))
    with pytest.raises(WrongDefinitionError, match="AIRFLOW__TIDEGATE__LEGER isn't an option"):
        values(write("") | {"AIRFLOW__TIDEGATE__LEGER": "x"})
    assert values(write("") | {"TIDEGATE_LEGER": "x"}) == {}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"x = {PASSWORD}\n[tidegate]\nhome = /srv\n", "line 1 belongs to no section"),
        (f"[tidegate]\n{PASSWORD}\n", "line 2 is neither a section nor an option"),
        (f"[tidegate]\nledger = a\nledger = {PASSWORD}\n", "line 3 says what was said before"),
        (f"[tidegate]\nhome = /srv\n[core]\nx={PASSWORD}\n[core]\n", "line 5 says what was said before"),
        (f"[tidegate]\nledger = postgresql://u:50%{PASSWORD}@db/x\n", "ledger in .* has a % .*: write %%"),
    ],
)
def test_a_broken_file_is_named_and_not_quoted(write, text, why):
    with pytest.raises(WrongDefinitionError, match=why) as caught:
        values(write(text))
    assert "airflow.cfg" in str(caught.value)
    assert PASSWORD not in str(caught.value)
    assert caught.value.__suppress_context__


def test_what_cannot_be_read_is_named(tmp_path, write):
    with pytest.raises(WrongDefinitionError, match=r"/ can't be read|can't be read \(Is a directory"):
        values({"AIRFLOW_CONFIG": str(tmp_path)})
    environ = write("")
    (tmp_path / "airflow.cfg").write_bytes(b"[tidegate]\nhome = \xff\n")
    with pytest.raises(WrongDefinitionError, match="it isn't UTF-8"):
        values(environ)


COMMENTED = "[tidegate]\n# Folder of the definitions.\n#\n\n  ; home = /srv\n"


@pytest.mark.parametrize("section", ["", COMMENTED, f"{COMMENTED}[core]\n", f"[DEFAULT]\n# x = 1\n{COMMENTED}"])
def test_a_broken_file_without_an_option_of_ours_is_airflow_s_affair(write, section):
    assert values(write(f"neither a section\nnor an option\n{section}")) == {}


@pytest.mark.parametrize(
    "file",
    [
        "[tidegate]\nhome = /srv/y\n",
        "[tidegate]\n# home = /x\n\n\f\n \t\n  ; home = /z\nhome = /srv/y\n",
        "[core]\nx = 1\n[tidegate] # ours\n\nhome = /srv/y\n[other]\n",
        "[DEFAULT]\n# x = 1\n\nfolder = /srv\n[tidegate]\n# nothing\nhome = %(folder)s/y\n",
        "[DEFAULT]\nhome = /srv/y\n[tidegate]\n# nothing\n",
    ],
)
def test_an_option_is_found_wherever_it_stands(write, file):
    assert values(write(file)) == {"home": "/srv/y"}
