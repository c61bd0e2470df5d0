"""What Iceberg's catalogs and their stores raise, as errors that say what to do; no text has a password."""

import re
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import Final

import requests
from pyiceberg import exceptions as iceberg
from sqlalchemy import exc as sql

from tidegate.model.errors import UnauthorizedError, UnavailableError, WrongDefinitionError

_REFUSED: Final = (
    iceberg.UnauthorizedError,
    iceberg.ForbiddenError,
    iceberg.OAuthError,
    iceberg.AuthorizationExpiredError,
    PermissionError,
)
_UNREACHED: Final = (iceberg.RESTError, sql.DBAPIError, sql.TimeoutError, requests.RequestException, OSError)
_REFUSED_BY_HTTP: Final = (400, 401, 403)  # 400 is OAuth's for credentials that a token endpoint doesn't take
_USER = re.compile(r"://[^/\s]+@")
_REFUSED_BY_POSTGRESQL: Final = ("authentication failed", "permission denied")


@contextmanager
def asking(where: str, secrets: Collection[str] = ()) -> Iterator[None]:
    """Raise UnauthorizedError where a catalog or its store refuses, WrongDefinitionError for what it can't do.

    UnavailableError where it doesn't answer, after which it isn't known whether what was asked for was done. Causes
    are left out, as their texts may have a password.
    """
    try:
        yield
    except _REFUSED as error:
        raise UnauthorizedError(f"the catalog or its store refuses ({where}): {text_of(error, secrets)}") from None
    except iceberg.BadRequestError as error:
        raise WrongDefinitionError(f"the catalog can't do it ({where}): {text_of(error, secrets)}") from None
    except _UNREACHED as error:
        text = text_of(error, secrets)
        if isinstance(error, sql.DBAPIError) and any(each in text for each in _REFUSED_BY_POSTGRESQL):
            raise UnauthorizedError(f"the catalog's database refuses ({where}): {text}") from None
        if isinstance(error, requests.HTTPError) and getattr(error.response, "status_code", 0) in _REFUSED_BY_HTTP:
            raise UnauthorizedError(f"the catalog or its token endpoint refuses ({where}): {text}") from None
        if isinstance(error, FileNotFoundError):  # for a moment perhaps, as others' commits remove old metadata
            raise UnavailableError(
                f"the catalog names a file that isn't there ({where}): {text}; run again, and if it stays so, bring "
                "it back, or drop the table from its catalog: the next run then says how its batches are made again"
            ) from None
        raise UnavailableError(f"the catalog or its store can't be reached ({where}): {text}") from None


def text_of(error: BaseException, secrets: Collection[str] = ()) -> str:
    """The first line of an error's text, without the secrets and without what stands before a URL's host."""
    text = _USER.sub("://***@", str(error).partition("\n")[0])
    for secret in sorted(filter(None, secrets), key=len, reverse=True):
        text = text.replace(secret, "***")
    return text or type(error).__name__
