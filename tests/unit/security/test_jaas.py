"""JAAS text is read as Kafka's own parser reads it, and no error shows a word of it."""

import traceback
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.model.errors import WrongDefinitionError
from tidegate.security.jaas import parse, written

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SECRET = "hush-hush"


@pytest.mark.parametrize(
    ("text", "options"),
    [
        (f'{PLAIN} required username="me" password="{SECRET}";', {"username": "me", "password": SECRET}),
        (f"{PLAIN} REQUIRED\n  username='me'\n  password='a\"b';\n", {"username": "me", "password": 'a"b'}),
        (f'{PLAIN} required password="a\\"b\\\\c; d=e";', {"password": 'a"b\\c; d=e'}),
        (f'{PLAIN} required password = "ä\\tb\\101\\0";', {"password": "ä\tbA\0"}),
        (f"{PLAIN} required username=alice_b-c.d$e password=x;", {"username": "alice_b-c.d$e", "password": "x"}),
        (f'{PLAIN} required // who?\n username="me" /* no = ; */ password="";', {"username": "me", "password": ""}),
        (f"{PLAIN} required;", {}),
        (f'{PLAIN} required password="a\\8b";', {"password": "a8b"}),
    ],
)
def test_options_are_read_with_their_quotes_and_escapes(text: str, options: dict[str, str]) -> None:
    module = parse(text)
    assert (module.name, module.options) == ("PlainLoginModule", options)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "semicolon"),
        (SECRET, "semicolon"),
        (f"{PLAIN} required password={SECRET}", "semicolon"),
        (";", "login module's class"),
        (f"{PLAIN};", "one of required"),
        (f"{PLAIN} {SECRET};", "one of required"),
        (f'"{SECRET}" = required;', "one of required"),
        (f"{PLAIN} required password;", "name=value"),
        (f"{PLAIN} required password=;", "name=value"),
        (f"{PLAIN} required = {SECRET};", "name=value"),
        (f"{PLAIN} required password={SECRET}@x;", "double quotes"),
        (f"{PLAIN} required password=1{SECRET};", "double quotes"),
        (f'{PLAIN} required password="{SECRET};', "double quotes"),
        (f'{PLAIN} required password="{SECRET}\n";', "double quotes"),
        (f'{PLAIN} required password="{SECRET}"; {PLAIN} required;', "one login module"),
    ],
)
def test_what_cannot_be_read_is_said_without_quoting_it(text: str, said: str) -> None:
    with pytest.raises(WrongDefinitionError, match=rf"sasl\.jaas\.config can't be read: .*{said}") as caught:
        parse(text)
    assert SECRET not in "".join(traceback.format_exception(caught.value))


def test_a_module_shows_no_option() -> None:
    assert SECRET not in repr(parse(f'{PLAIN} required password="{SECRET}";'))


@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\n")))
def test_any_password_in_quotes_comes_back(password: str) -> None:
    quoted = password.replace("\\", "\\\\").replace('"', '\\"')
    assert parse(f'{PLAIN} required password="{quoted}";').options == {"password": password}


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(WrongDefinitionError):
        parse(text)


@given(st.dictionaries(st.sampled_from(["username", "password"]), st.text(st.characters(exclude_categories=["Cs"]))))
def test_what_is_written_is_read_back(options: dict[str, str]) -> None:
    module = parse(written(PLAIN, options))
    assert (module.name, module.options) == ("PlainLoginModule", options)
