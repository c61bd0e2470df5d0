"""Where definitions, ledger and landing are."""

import stat
from pathlib import Path

import pytest
from checkout import PROJECT
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.settings import Settings, absolute_uri, job_environment, redact, scheme, umask
from tidegate.model.errors import WrongDefinitionError


@pytest.fixture
def airflow(tmp_path, monkeypatch):
    """Airflow's folder, which is there and has no configuration yet; what `{}` leads to."""
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "airflow").mkdir()
    return tmp_path / "airflow"


def checkout(folder):
    (folder / "include/subscriptions").mkdir(parents=True)
    return folder


def test_without_variables_everything_lies_below_airflow_and_need_not_be_there(airflow):
    settings = Settings.from_environment({})
    assert settings.home == airflow / "tidegate"
    assert not settings.home.exists()
    assert settings.subscriptions == settings.home / "include/subscriptions"
    assert settings.ledger == f"sqlite:///{settings.home}/data/ledger.db"
    assert settings.landing == f"file://{settings.home}/data/landing"
    assert settings.logs == settings.home / "data/logs"
    assert (settings.operators, settings.operator_roles) == ((), ())
    assert set(settings.origins.values()) == {"default"}
    assert Settings.from_environment({"AIRFLOW_HOME": "/opt/airflow"}).home == Path("/opt/airflow/tidegate")


@pytest.mark.usefixtures("airflow")
def test_a_working_folder_with_definitions_is_the_command_line_s_home_and_nobody_else_s(tmp_path, monkeypatch):
    folder = checkout(tmp_path / "checkout")
    monkeypatch.chdir(folder)
    assert Settings.from_environment({}, folder).home == folder
    assert Settings.from_environment({}, folder).origins["home"] == "working folder"
    assert Settings.from_environment({}).home == tmp_path / "airflow/tidegate"
    assert Settings.from_environment({}, tmp_path).home == tmp_path / "airflow/tidegate"
    assert Settings.from_environment({"TIDEGATE_HOME": str(tmp_path)}, folder).home == tmp_path


def test_a_working_folder_does_not_count_beside_what_airflow_is_told(airflow, tmp_path):
    folder = checkout(tmp_path / "checkout")
    environ = {"AIRFLOW__TIDEGATE__LEDGER": "postgresql://db/tidegate"}
    assert Settings.from_environment(environ, folder).home == airflow / "tidegate"


def test_two_folders_with_definitions_are_not_chosen_between(airflow, tmp_path):
    folder, default = checkout(tmp_path / "checkout"), checkout(airflow / "tidegate")
    with pytest.raises(WrongDefinitionError, match="set TIDEGATE_HOME") as caught:
        Settings.from_environment({}, folder)
    assert str(folder) in str(caught.value)
    assert str(default) in str(caught.value)
    assert Settings.from_environment({}, default).home == default


def test_a_relative_home_is_the_command_line_s_alone(tmp_path):
    checkout(tmp_path / "mine")
    assert Settings.from_environment({"TIDEGATE_HOME": "mine"}, tmp_path).home == tmp_path / "mine"
    with pytest.raises(WrongDefinitionError, match=r"TIDEGATE_HOME is mine, .*: write the whole path"):
        Settings.from_environment({"TIDEGATE_HOME": "mine"})
    with pytest.raises(WrongDefinitionError, match=r"AIRFLOW__TIDEGATE__HOME is mine, .*: write the whole path"):
        Settings.from_environment({"AIRFLOW__TIDEGATE__HOME": "mine"}, tmp_path)


def test_a_variable_counts_before_airflow_s_and_that_before_its_file(airflow, tmp_path):
    file = airflow / "airflow.cfg"
    file.write_text(
        f"[core]\nparallelism = 4\n[tidegate]\nhome = {tmp_path}\nledger = sqlite:///100%%.db\nlanding = in\n"
        "logs = of-file\numask = 027\noperators =\n"
    )
    variables = {"AIRFLOW__TIDEGATE__LANDING": "of-airflow", "AIRFLOW__TIDEGATE__LOGS": "of-airflow"}
    settings = Settings.from_environment(variables | {"TIDEGATE_LOGS": "of-variable"})
    assert settings.home == tmp_path
    assert settings.ledger == f"sqlite:///{tmp_path}/100%.db"
    assert settings.landing == f"file://{tmp_path}/of-airflow"
    assert settings.logs == tmp_path / "of-variable"
    assert settings.umask == 0o027
    assert settings.to_json()["TIDEGATE_LEDGER"] == {
        "value": settings.ledger,
        "origin": f"[tidegate] ledger in {file}",
    }
    origins = {name: each["origin"] for name, each in settings.to_json().items()}
    assert origins["TIDEGATE_LANDING"] == "AIRFLOW__TIDEGATE__LANDING"
    assert origins["TIDEGATE_LOGS"] == "TIDEGATE_LOGS"
    assert origins["TIDEGATE_OPERATORS"] == origins["TIDEGATE_HTTP_ALLOWED"] == "default"


def test_umask_and_job_environment_alone_are_those_of_the_settings(airflow):
    (airflow / "airflow.cfg").write_text("[tidegate]\numask = 007\njob_environment = AWS_*, RATES\n")
    assert umask({}) == Settings.from_environment({}).umask == 0o007
    assert job_environment({}) == Settings.from_environment({}).job_environment == ("AWS_*", "RATES")


@pytest.mark.parametrize(("given", "rights"), [("077", 0o700), ("007", 0o770)])
def test_the_default_home_is_made_for_those_whom_the_umask_leaves(airflow, given, rights):
    settings = Settings.from_environment({"TIDEGATE_UMASK": given})
    for _ in range(2):
        settings.make_home()
        assert stat.S_IMODE((airflow / "tidegate").stat().st_mode) == rights


def test_what_is_wrong_in_airflow_s_configuration_is_named_there(airflow):
    file = airflow / "airflow.cfg"
    file.write_text("[tidegate]\nledger = data/ledger.db\n")
    with pytest.raises(WrongDefinitionError, match="isn't a SQLAlchemy URL") as caught:
        Settings.from_environment({})
    assert f"[tidegate] ledger in {file}" in str(caught.value)


def test_relative_paths_start_from_home(tmp_path):
    settings = Settings.from_environment(
        {
            "TIDEGATE_HOME": str(tmp_path),
            "TIDEGATE_SUBSCRIPTIONS": "../definitions/",
            "TIDEGATE_LEDGER": "sqlite:///state/ledger.db?timeout=5",
            "TIDEGATE_LANDING": "incoming/",
        }
    )
    assert settings.subscriptions == tmp_path.parent / "definitions"
    assert settings.ledger == f"sqlite:///{tmp_path}/state/ledger.db?timeout=5"
    assert settings.landing == f"file://{tmp_path}/incoming"


def test_absolute_places_stay(tmp_path):
    settings = Settings.from_environment(
        {
            "TIDEGATE_SUBSCRIPTIONS": str(tmp_path),
            "TIDEGATE_LEDGER": "postgresql+psycopg2://u:p@db/tidegate",
            "TIDEGATE_LANDING": "s3://bucket/landing/",
        }
    )
    assert settings.subscriptions == tmp_path
    assert settings.ledger == "postgresql+psycopg2://u:p@db/tidegate"
    assert settings.landing == "s3://bucket/landing"
    absolute = Settings.from_environment({"TIDEGATE_LEDGER": "sqlite:////var/ledger.db"})
    assert absolute.ledger == "sqlite:////var/ledger.db"


def test_an_empty_variable_is_an_unset_one():
    names = ("HOME", "SUBSCRIPTIONS", "LEDGER", "LANDING", "OPERATORS", "OPERATOR_ROLES")
    assert Settings.from_environment({f"TIDEGATE_{each}": "" for each in names}) == Settings.from_environment({})


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("ada", ("ada",)),
        (" ada , grace@x.example,ada,", ("ada", "grace@x.example")),
        ("o'brien@x.example,DOMAIN\\ada", ("o'brien@x.example", "DOMAIN\\ada")),
    ],
)
def test_operators_are_names_between_commas(listed, names):
    settings = Settings.from_environment({"TIDEGATE_OPERATORS": listed, "TIDEGATE_OPERATOR_ROLES": listed})
    assert (settings.operators, settings.operator_roles) == (names, names)
    shown = settings.redacted()
    assert shown["TIDEGATE_OPERATORS"] == shown["TIDEGATE_OPERATOR_ROLES"] == ", ".join(names)


def test_a_role_may_have_blanks_in_its_name():
    given = {"TIDEGATE_OPERATOR_ROLES": "Data Engineers, Op"}
    assert Settings.from_environment(given).operator_roles == ("Data Engineers", "Op")


@pytest.mark.parametrize("name", ["TIDEGATE_OPERATORS", "TIDEGATE_OPERATOR_ROLES", "AIRFLOW__TIDEGATE__OPERATORS"])
@pytest.mark.parametrize("value", [",", " ", " , ,", "\t"])
def test_a_list_of_operators_that_names_nobody_does_not_mean_everybody(name, value):
    with pytest.raises(WrongDefinitionError, match=f"^{name} names nobody: .*separated by commas, or leave it unset"):
        Settings.from_environment({name: value})


@pytest.mark.parametrize(
    ("name", "value", "wrong"),
    [
        ("TIDEGATE_OPERATORS", "ada;grace", "ada;grace"),
        ("TIDEGATE_OPERATORS", "ada grace", "ada grace"),
        ("TIDEGATE_OPERATORS", '"ada,grace"', '"ada'),
        ("TIDEGATE_OPERATORS", "'ada', 'grace'", "'ada'"),
        ("TIDEGATE_OPERATOR_ROLES", "Op;Admin", "Op;Admin"),
        ("TIDEGATE_OPERATOR_ROLES", '["Op"]', '["Op"]'),
    ],
)
def test_operators_that_are_separated_otherwise_are_no_names(name, value, wrong):
    with pytest.raises(WrongDefinitionError) as caught:
        Settings.from_environment({name: value})
    assert str(caught.value) == f"{name} has {wrong}, which is no name: write names separated by commas, without quotes"


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TIDEGATE_HOME", "/nowhere/at/all", "isn't a folder"),
        ("TIDEGATE_LEDGER", "data/ledger.db", "isn't a SQLAlchemy URL"),
        ("TIDEGATE_LEDGER", "mysql://u:secret@h/l", "can't be kept in mysql: write sqlite:///data/ledger.db or"),
        ("TIDEGATE_LEDGER", "postgres://u:secret@h/l", "can't be kept in postgres: write"),
        ("TIDEGATE_LEDGER", "sqlite://", "in memory"),
        ("TIDEGATE_LEDGER", "sqlite:///:memory:", "in memory"),
        ("TIDEGATE_LEDGER", "sqlite:///file::memory:?uri=true", "is .*, a URI of SQLite's own: name the file, as"),
        ("TIDEGATE_LEDGER", "sqlite:///file:/data/ledger.db?uri=true", "a URI of SQLite's own"),
        ("TIDEGATE_LANDING", "file://data/landing", "write file:///data/landing"),
        ("TIDEGATE_LOGS", "s3://bucket/logs", "is s3://bucket/logs: name a folder of this machine, as data/logs"),
        (
            "TIDEGATE_LANDING",
            "foo://x/y",
            "is foo://x/y, which is no place to land in: write a path, .*s3://connection@",
        ),
        ("TIDEGATE_LANDING", "s3:/bucket/landing", "is no place to land in"),
        ("TIDEGATE_LANDING", "s3://", "is no place to land in"),
        ("TIDEGATE_LANDING", "s3://minio:9000/bucket", "is no place to land in"),
        ("TIDEGATE_LANDING", "hdfs:", "is no place to land in"),
        ("TIDEGATE_LANDING", "/", "is no place to land in"),
        (
            "TIDEGATE_LANDING",
            "s3://c@lake/a/../b",
            r"is s3://c@lake/a/../b, which must not have \.\. between slashes: write the place without it$",
        ),
        ("TIDEGATE_LANDING", "s3a://lake/./b", r"must not have \. between slashes: write the place without it$"),
        ("TIDEGATE_LANDING", "gcs://lake//b/", "must not have // after the bucket: write one slash$"),
        ("TIDEGATE_LANDING", "s3://lake/..", r"must not have \.\. between slashes: write the place without it$"),
    ],
)
def test_a_wrong_setting_is_named_with_what_to_do(name, value, said):
    with pytest.raises(WrongDefinitionError, match=said) as caught:
        Settings.from_environment({name: value})
    assert name in str(caught.value)


def test_passwords_are_shown_nowhere():
    settings = Settings.from_environment(
        {
            "TIDEGATE_LEDGER": "postgresql://me:hun/t?er@2@db:5432/t?sslpassword=hunter3&application_name=x",
            "TIDEGATE_LANDING": "s3://bucket/landing?secret_key=hunter5",
        }
    )
    for shown in (repr(settings), str(settings.redacted())):
        assert "hun" not in shown
        assert "ter" not in shown.replace("tidegate", "")
    assert settings.redacted()["TIDEGATE_LEDGER"].endswith("&application_name=x")


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://db/t?options=-c%20tidegate.key%3Dhunter2",
        "postgresql:///?dsn=host%3Ddb%20password%3Dhunter2",
        "postgresql:///?dsn=host=db password=hunter2#x",
        "postgresql:///?service=hunter2",
        "postgresql://me:hun@hunter2@db/t",
        "postgresql://me:hun/ter2@db/t",
    ],
)
def test_wherever_a_ledger_s_secret_stands_it_is_not_shown(url):
    shown = Settings.from_environment({"TIDEGATE_LEDGER": url}).redacted()["TIDEGATE_LEDGER"]
    assert "hun" not in shown
    assert "ter2" not in shown


@pytest.mark.parametrize("uri", ["s3://AKIA:hunter2@bucket/x", "s3a://AKIA:hun/ter2@bucket/x", "hdfs://me:hunter2@n/x"])
def test_a_landing_with_credentials_is_refused_without_showing_them(uri):
    with pytest.raises(WrongDefinitionError, match=r"TIDEGATE_LANDING.*can't hold credentials") as caught:
        Settings.from_environment({"TIDEGATE_LANDING": uri})
    assert "hun" not in str(caught.value)


@pytest.mark.parametrize("uri", ["hdfs://name:8020/a@b", "hdfs://me@name:8020/x", "abfss://c@account/x", "/a:b@c"])
def test_a_landing_without_credentials_is_taken(uri):
    assert Settings.from_environment({"TIDEGATE_LANDING": uri}).landing.endswith(uri)


@pytest.mark.parametrize(
    "uri",
    ["hdfs:///x", "viewfs://cluster/x", "s3://bucket", "s3a://store@bucket/a b", "gs://bucket/x", "gcs://bucket/x"],
)
def test_a_landing_may_be_on_any_file_system_that_can_be_written_to(uri):
    assert Settings.from_environment({"TIDEGATE_LANDING": uri}).landing.endswith(uri)


@pytest.mark.parametrize(
    ("given", "expected"), [(None, 0o077), ("", 0o077), ("027", 0o027), ("0007", 0o007), ("022", 0o022)]
)
def test_the_umask_leaves_files_to_their_owner_unless_it_is_set(given, expected):
    settings = Settings.from_environment({} if given is None else {"TIDEGATE_UMASK": given})
    assert settings.umask == expected
    assert int(settings.redacted()["TIDEGATE_UMASK"], 8) == expected


@pytest.mark.parametrize("given", ["77", "0o77", "177", "700", "rw", "-1", "0888"])
def test_a_umask_that_takes_the_owner_s_rights_or_is_none_is_refused(given):
    with pytest.raises(WrongDefinitionError, match=f"TIDEGATE_UMASK is {given}: write three octal digits"):
        Settings.from_environment({"TIDEGATE_UMASK": given})


def test_a_wrong_ledger_does_not_show_its_password():
    with pytest.raises(WrongDefinitionError) as caught:
        Settings.from_environment({"TIDEGATE_LEDGER": "postgresql:me:hunter2@db"})
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("data/lake/flights", "file:///srv/tidegate/data/lake/flights"),
        ("./data/../data/lake/", "file:///srv/tidegate/data/lake"),
        ("/lake", "file:///lake"),
        ("//lake", "file:///lake"),
        ("with space/100%", "file:///srv/tidegate/with space/100%"),
        ("file:///lake/x/", "file:///lake/x"),
        ("file:/lake", "file:///lake"),
        ("FILE:///lake", "file:///lake"),
        ("hdfs://name:8020/lake/", "hdfs://name:8020/lake"),
        ("HDFS://name/lake", "hdfs://name/lake"),
        ("s3://bucket/a b", "s3://bucket/a b"),
    ],
)
def test_every_place_has_one_spelling(tmp_path, written, expected):
    home = type(tmp_path)("/srv/tidegate")
    assert absolute_uri(home, written) == expected
    assert absolute_uri(home, expected) == expected


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1).filter(lambda path: ":" not in path))
def test_a_path_s_uri_is_absolute_and_final(path):
    uri = absolute_uri(PROJECT, path)
    assert uri.startswith("file:///")
    assert absolute_uri(PROJECT, uri) == uri


def test_a_scheme_is_told_from_a_path():
    assert scheme("S3A://b/x") == "s3a"
    assert scheme("data/lake") is None
    assert scheme("/data:x") is None


def test_a_url_without_secrets_stays_as_it_is():
    assert redact("hdfs://user@name:8020/lake?x=1") == "hdfs://user@name:8020/lake?x=1"
