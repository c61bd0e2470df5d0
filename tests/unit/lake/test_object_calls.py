"""What is said where an object store refuses, by a server that answers as Amazon's does."""

import re
from collections.abc import Callable

import pytest
from moto_s3 import store_connection
from refusing_store import EXPIRED, refusing

from tidegate.lake.object_store.calls import Objects
from tidegate.model.errors import TidegateError, UnauthorizedError
from tidegate.parquet.object_stores import object_store

WHY = "The request signature we calculated does not match the signature you provided. Check your key &amp; method."
REFUSED = f"""<?xml version="1.0" encoding="UTF-8"?>
<Error><Code>SignatureDoesNotMatch</Code><Message>{WHY}</Message><AWSAccessKeyId>AKIA</AWSAccessKeyId></Error>"""


def said_of(
    text: str, ask: Callable[[Objects], object] = lambda objects: objects.read("a"), status: int = 403
) -> TidegateError:
    with refusing(text, status) as endpoint, pytest.raises(TidegateError) as raised:
        ask(Objects("s3://store@lake/x", object_store(store_connection(endpoint))))
    return raised.value


def test_of_a_refusal_its_code_and_its_message_are_said() -> None:
    error = said_of(REFUSED)
    assert isinstance(error, UnauthorizedError)
    assert str(error) == (
        f"s3://store@lake/x can't be used: SignatureDoesNotMatch: {WHY.replace('&amp;', '&')[:-1]}; mend the keys, or "
        "let them list, read and write"
    )


def test_a_code_may_have_no_message() -> None:
    assert "can't be used: AccessDenied; mend the keys" in str(said_of("<Error><Code>AccessDenied</Code></Error>"))


def test_other_answers_are_cut_between_words() -> None:
    error = str(said_of("nobody may " * 99))
    assert re.search(r"403 Forbidden: nobody may .* (nobody|may) \.\.\.; mend the keys", error), error
    assert len(error) < 450


def test_a_store_that_refuses_to_list_is_no_store_that_is_away() -> None:
    assert isinstance(said_of(REFUSED, lambda objects: [*objects.all("a")]), UnauthorizedError)


@pytest.mark.parametrize(
    "ask",
    [
        lambda objects: objects.read("a"),
        lambda objects: objects.create("a", b"1"),
        lambda objects: [*objects.all("a")],
    ],
)
def test_a_session_token_that_has_expired_is_no_store_that_is_away(ask: Callable[[Objects], object]) -> None:
    error = said_of(EXPIRED, ask, status=400)
    assert isinstance(error, UnauthorizedError)
    assert str(error) == (
        "s3://store@lake/x can't be used: the session token has expired or is wrong: renew it in connection store"
    )
    assert error.__suppress_context__, "the store's answer quotes the token"
