"""Where definitions, ledger and landing are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.config.settings import PROJECT, Settings, absolute_uri, redact, scheme
from tidegate.model.errors import WrongDefinitionError


def test_without_variables_everything_lies_in_the_project():
    settings = Settings.from_environment({})
    assert (PROJECT / "include/tidegate/config/settings.py").is_file()
    assert settings.home == PROJECT
    assert settings.subscriptions == PROJECT / "include/subscriptions"
    assert settings.ledger == f"sqlite:///{PROJECT}/data/ledger.db"
    assert settings.landing == f"file://{PROJECT}/data/landing"
    assert (settings.operators, settings.operator_roles) == ((), ())


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
        (" , ", ()),
        ("Ada L", ("Ada L",)),
    ],
)
def test_operators_are_names_between_commas(listed, names):
    settings = Settings.from_environment({"TIDEGATE_OPERATORS": listed, "TIDEGATE_OPERATOR_ROLES": listed})
    assert (settings.operators, settings.operator_roles) == (names, names)
    shown = settings.redacted()
    assert shown["TIDEGATE_OPERATORS"] == shown["TIDEGATE_OPERATOR_ROLES"] == ", ".join(names)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("TIDEGATE_HOME", "/nowhere/at/all", "isn't a folder"),
        ("TIDEGATE_LEDGER", "data/ledger.db", "isn't a SQLAlchemy URL"),
        ("TIDEGATE_LEDGER", "sqlite://", "in memory"),
        ("TIDEGATE_LEDGER", "sqlite:///:memory:", "in memory"),
        ("TIDEGATE_LANDING", "file://data/landing", "write file:///data/landing"),
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
    ("given", "umask"), [(None, 0o077), ("", 0o077), ("027", 0o027), ("0007", 0o007), ("022", 0o022)]
)
def test_the_umask_leaves_files_to_their_owner_unless_it_is_set(given, umask):
    settings = Settings.from_environment({} if given is None else {"TIDEGATE_UMASK": given})
    assert settings.umask == umask
    assert int(settings.redacted()["TIDEGATE_UMASK"], 8) == umask


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
