"""What may stand in a definition about requests over HTTP: where they go, their headers, and the template of a body."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

from tidegate.config.extras import missing
from tidegate.config.property_types import Allowed, PropertyType, Text
from tidegate.config.settings import has_password

RESERVED = frozenset(
    name.lower()
    for name in (
        *("QOH-Broker", "QOH-Consumer", "QOH-Topic", "QOH-Partition", "QOH-Message-Key", "QOH-Message-Number"),
        *("User-Agent", "Idempotency-Key", "Content-Length", "Transfer-Encoding", "Host", "Connection", "Expect"),
    )
)
"""Headers, in lower case, that a definition can't give: they say what the record is, or how the connection is used."""
CREDENTIALS = frozenset({"authorization", "proxy-authorization", "cookie"})
"""Headers, in lower case, that are secrets, and so a connection's."""
_LIKE_A_CREDENTIAL = re.compile(
    r"pass|pwd|secret|token|key|credential|auth(?!or)|private|signature|session|cookie|jwt", re.IGNORECASE
)
HEADER_NAME: Final = r"[!#$%&'*+.^_`|~0-9A-Za-z-]+"  # RFC 9110, 5.6.2
"""The pattern of a header's name."""


@dataclass(frozen=True)
class HttpUri(Text):
    """The URI of an HTTP server, without a user and a password."""

    pattern: str = r"[Hh][Tt][Tt][Pp][Ss]?://[^ /?#@]+(?:[/?][^ #]*)?"
    shape: str = "a URI that begins with http:// or https:// and has neither a user nor a fragment"
    words: str = "http:// or https://, no user, no fragment"

    def validate(self, value: object) -> str | None:
        if isinstance(value, str) and has_password(value):
            return "must not hold a password: put it into the connection that processing.connection names"
        return super().validate(value) or _wrong_port(str(value))


@dataclass(frozen=True)
class HeaderLines(PropertyType):
    """Names of headers and their values."""

    def validate(self, value: object) -> str | None:
        if not isinstance(value, dict):
            return "must be a mapping of headers to texts, as in {X-Team: harbour}"
        for name, text in value.items():
            if wrong := wrong_header(name, text):
                return wrong
        if len({name.lower() for name in value}) < len(value):
            return "has a header twice: names are the same in capitals and small letters"
        return None

    def allowed(self) -> Allowed:
        schema = {
            "type": "object",
            "propertyNames": {"pattern": f"^{HEADER_NAME}$"},
            "additionalProperties": {"type": "string"},
        }
        return Allowed(schema, "headers and texts, `{X-Team: harbour}`")

    def parse(self, value: Mapping[str, str]) -> Mapping[str, str]:
        return {name: text.strip() for name, text in value.items()}


def wrong_header(name: object, text: object) -> str | None:
    """What is wrong with a header of a definition, to be read after a property's name; None if nothing is."""
    if not isinstance(name, str) or not re.fullmatch(HEADER_NAME, name):
        return f"has {name!r}, which is no name of a header: write as in X-Team"
    if name.lower() in RESERVED:
        return f"has {name}, which Tidegate sets for each request: remove it"
    if name.lower() in CREDENTIALS:
        return f"has {name}, which is a secret: put it into the connection that processing.connection names"
    if not isinstance(text, str):
        return f"has {name}, whose value must be a text: put it in quotes"
    if not all(each.isprintable() or each == "\t" for each in text):
        return f"has {name}, whose value has characters that no header can have, such as a line break: remove them"
    return None


def is_like_a_credential(name: str) -> bool:
    """Whether a header of this name mostly is a secret, as X-Api-Key is."""
    return _LIKE_A_CREDENTIAL.search(name) is not None


@dataclass(frozen=True)
class BodyTemplate(PropertyType):
    """A template in MiniJinja's language."""

    def validate(self, value: object) -> str | None:
        if not isinstance(value, str) or not value.strip():
            return "must be a template, as in '{\"text\": {{ value }}}'"
        if missing("http"):
            return None  # which `processing.kind` tells
        from minijinja import Environment, TemplateError  # noqa: PLC0415 (few definitions have one)

        try:
            Environment().add_template("body", value)
        except TemplateError as error:
            said = str(error).splitlines()[0].replace(" (in body:", " (its line ")
            return f"must be a template in MiniJinja's language: {said}"
        return None

    def allowed(self) -> Allowed:
        return Allowed({"type": "string", "minLength": 1}, "a MiniJinja template")


def _wrong_port(uri: str) -> str | None:
    try:
        urlsplit(uri).port  # noqa: B018 (raises)
    except ValueError:
        return "must have a port from 0 to 65535, or none"
    return None
