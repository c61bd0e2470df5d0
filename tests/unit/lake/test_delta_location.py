"""What is said where the store of a Delta table refuses."""

import pytest
from deltalake.exceptions import CommitFailedError
from moto_s3 import store_connection
from refusing_store import EXPIRED, refusing

from tidegate.lake.delta.location import DeltaLocation, stated
from tidegate.lake.delta.table import opened
from tidegate.model.errors import TidegateError, UnauthorizedError, UnavailableError
from tidegate.parquet.object_stores import object_store

DENIED = "<Error><Code>AccessDenied</Code><Message>Access &quot;put&quot; Denied.</Message></Error>"


def location(endpoint: str) -> DeltaLocation:
    return DeltaLocation("s3://store@lake/t", object_store(store_connection(endpoint)).for_object_store({}))


def put_refused(text: str, status: int) -> TidegateError:
    with refusing(text, status) as endpoint, pytest.raises(TidegateError) as raised:
        location(endpoint).create("_tidegate", "a", "text")
    return raised.value


def test_a_role_that_may_not_put_is_told_in_one_line() -> None:
    error = put_refused(DENIED, 403)
    assert isinstance(error, UnauthorizedError)
    assert str(error) == (
        's3://store@lake/t can\'t be used: AccessDenied: Access "put" Denied; mend the keys, or let them list, read '
        "and write"
    )
    assert error.__suppress_context__


def test_a_store_that_fails_to_put_is_unavailable_in_one_line() -> None:
    error = put_refused("<Error><Code>MethodNotAllowed</Code></Error>", 405)
    assert isinstance(error, UnavailableError)
    assert str(error) == "s3://store@lake/t can't be reached: MethodNotAllowed"


def test_a_session_token_that_has_expired_is_no_store_that_is_away() -> None:
    renew = "the session token has expired or is wrong: renew it in connection store"
    for error in (put_refused(EXPIRED, 400), open_refused(EXPIRED, 400)):
        assert isinstance(error, UnauthorizedError)
        assert str(error) == f"s3://store@lake/t can't be used: {renew}"
        assert error.__suppress_context__, "the store's answer quotes the token"


def open_refused(text: str, status: int) -> TidegateError:
    with refusing(text, status) as endpoint, pytest.raises(TidegateError) as raised:
        opened(location(endpoint))
    return raised.value


def test_what_a_store_says_to_a_reader_is_told() -> None:
    error = open_refused(DENIED, 403)
    assert isinstance(error, UnauthorizedError)
    assert 'the store refuses: AccessDenied: Access "put" Denied (s3://store@lake/t); check' in str(error)


def test_a_commit_that_meets_an_expired_token_is_not_taken_for_a_broken_table() -> None:
    with pytest.raises(UnauthorizedError, match="renew it in the environment"), stated("s3://lake/t"):
        raise CommitFailedError(f"Transaction failed: 400 Bad Request: {EXPIRED}")
