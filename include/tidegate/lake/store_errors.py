"""What an object store's answers, as obstore and delta-rs tell them, mean to the caller: one line each.

Their own texts run over many lines, and quote the store's whole answer, which may have a session token.
"""

import re
from html import unescape
from textwrap import shorten
from typing import Final

from obstore.exceptions import PermissionDeniedError, UnauthenticatedError

from tidegate.model.errors import TidegateError, UnauthorizedError, UnavailableError, WrongDefinitionError
from tidegate.parquet.known_stores import object_place, refused_token

NO_BUCKET: Final = "NoSuchBucket"
_REFUSED: Final = "status code: 403"  # of a listing obstore says no more
_CODE: Final = re.compile(r"<Error>\s*<Code>(.+?)</Code>")
_WHY: Final = re.compile(r"<Message>(.+?)</Message>")
_SAID: Final = 300  # characters of what a store says


def failed_call(uri: str, error: Exception) -> TidegateError:
    """What an error of obstore's means for what lies below a URI."""
    if expired := refused_session(uri, error):
        return expired
    if isinstance(error, PermissionDeniedError | UnauthenticatedError) or _REFUSED in str(error):
        return UnauthorizedError(f"{uri} can't be used: {said(error)}; mend the keys, or let them list, read and write")
    if NO_BUCKET in str(error):
        return WrongDefinitionError(f"there is no bucket for {uri}: make it, or name another")
    return UnavailableError(f"{uri} can't be reached: {said(error)}")


def refused_session(uri: str, error: Exception) -> UnauthorizedError | None:
    """The error that says so where a store refuses a session token; S3 answers as to any wrong request then."""
    place = object_place(uri)
    why = None if place is None else refused_token(str(error), place)
    return UnauthorizedError(f"{uri} can't be used: {why}") if why else None


def said(error: Exception) -> str:
    """What a store says, whose answer in XML names a code and why; the first words of other texts."""
    text = str(error)
    if code := _CODE.search(text):
        why = _WHY.search(text)
        text = unescape(f"{code[1]}: {why[1]}" if why else code[1]).rstrip(".")
    return shorten(text.partition("\n")[0], _SAID, placeholder=" ...")
