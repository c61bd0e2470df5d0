"""A JAAS configuration as Kafka's `sasl.jaas.config` takes it: one login module and its options.

Reads what Kafka's own parser (JaasConfig, on Java's StreamTokenizer) reads: values in double or single quotes,
with backslash escapes, or bare words; comments of both kinds. No error quotes what was given: it holds a password.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tidegate.model.errors import WrongDefinitionError

_FLAGS = ("required", "requisite", "sufficient", "optional")
_TOKEN = re.compile(
    r"""\s+ | //[^\n]* | /\*.*?\*/
    | (?P<quoted> "(?:[^"\\\n]|\\.)*" | '(?:[^'\\\n]|\\.)*' )
    | (?P<word> [A-Za-z_$\u0080-\U0010ffff][\w.$-]* )
    | (?P<sign> [=;] )""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_ESCAPES = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_FIRST_PRINTED = 0x20
_QUOTE_IT = 'put each value into double quotes, with \\" and \\\\ for a quote and a backslash'


@dataclass(frozen=True, slots=True)
class LoginModule:
    """A login module by the name of its class, without its package; the options are secrets."""

    name: str
    options: dict[str, str] = field(repr=False)


def parse(text: str) -> LoginModule:
    """The one login module that the text holds. Raises WrongDefinitionError, without a word of it, for others."""
    tokens = list(_tokens(text))
    signs = [index for index, token in enumerate(tokens) if token == (";", True)]
    if not signs:
        raise _unreadable("it must end with a semicolon")
    if signs[0] != len(tokens) - 1:
        raise _unreadable("it must hold one login module")
    module, flag, *rest = [*tokens[:-1], ("", True), ("", True)][: max(2, len(tokens) - 1)]
    if module[1] or flag[1] or flag[0].lower() not in _FLAGS:
        raise _unreadable(f"it must begin with a login module's class and one of {', '.join(_FLAGS)}")
    return LoginModule(module[0].rpartition(".")[2], _options(rest))


def written(module: str, options: Mapping[str, str]) -> str:
    """The text of one required login module, such that Kafka's parser and `parse` read back these options."""
    said = "".join(f' {name}="{_escaped(value)}"' for name, value in options.items())
    return f"{module} required{said};"


def _escaped(value: str) -> str:
    return "".join(
        f"\\{one}" if one in '"\\' else f"\\{ord(one):03o}" if ord(one) < _FIRST_PRINTED else one for one in value
    )


def _options(tokens: list[tuple[str, bool]]) -> dict[str, str]:
    options = {}
    for at in range(0, len(tokens), 3):
        match tokens[at : at + 3]:
            case [(key, False), ("=", True), (value, False)]:
                options[key] = value
            case _:
                raise _unreadable(f"an option must read name=value; {_QUOTE_IT}")
    return options


def _tokens(text: str) -> Iterator[tuple[str, bool]]:
    """Each word or value, and whether it is a sign (= or ;)."""
    position = 0
    while position < len(text):
        found = _TOKEN.match(text, position)
        if found is None:
            raise _unreadable(_QUOTE_IT)
        position = found.end()
        if found["quoted"] is not None:
            yield _ESCAPE.sub(_unescaped, found["quoted"][1:-1]), False
        elif found["word"] or found["sign"]:
            yield found[0], found["sign"] is not None


def _unescaped(escape: re.Match[str]) -> str:
    what = escape[1]
    return (
        chr(int(what, 8))
        if what.isdigit() and what.isascii() and "8" not in what and "9" not in what
        else (_ESCAPES.get(what, what))
    )


def _unreadable(why: str) -> WrongDefinitionError:
    return WrongDefinitionError(f"sasl.jaas.config can't be read: {why}")
