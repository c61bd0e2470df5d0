"""The options of `[tidegate]` in Airflow's configuration, read without Airflow, whose import takes seconds.

They are read as Airflow reads its own: `AIRFLOW__TIDEGATE__X` before the option `x` of airflow.cfg, in which `%%` is a
percent sign; `$NAME` and a leading `~` are expanded. Commands and secrets backends are refused: only some of the
processes would ask them, and each could be told something else.
"""

import re
from collections.abc import Collection, Mapping
from configparser import ConfigParser, DuplicateOptionError, DuplicateSectionError, InterpolationError, ParsingError
from configparser import Error as ConfigParserError
from contextlib import suppress
from dataclasses import dataclass
from os.path import expanduser
from pathlib import Path

from tidegate.config.nearest import did_you_mean
from tidegate.model.errors import WrongDefinitionError

SECTION = "tidegate"
PREFIX = "AIRFLOW__TIDEGATE__"

_INDIRECT = re.compile(r"(.+)_(?:cmd|secret)")
# Airflow writes our section into the file that it makes, each option as a comment.
_SAYS_SOMETHING = re.compile(
    rf"^\[(?:{SECTION}|DEFAULT)\].*\n(?:[^\S\n]*(?:[#;].*)?\n)*[^\S\n]*[^\s\[#;]", re.MULTILINE
)
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})", re.ASCII)
_NESTED = 10  # variables whose values name variables: Airflow expands them without end


@dataclass(frozen=True)
class Given:
    """What was configured, and where, in words for whoever has to correct it."""

    value: str
    origin: str


def airflow_home(environ: Mapping[str, str]) -> Path:
    """Airflow's folder. Raises WrongDefinitionError for a relative one."""
    return _place("AIRFLOW_HOME", environ.get("AIRFLOW_HOME") or "~/airflow", environ)


def config_file(environ: Mapping[str, str]) -> Path:
    """Airflow's configuration file, which may be missing. Raises WrongDefinitionError for a relative one."""
    named = environ.get("AIRFLOW_CONFIG")
    return _place("AIRFLOW_CONFIG", named, environ) if named else airflow_home(environ) / "airflow.cfg"


def dags_folder(environ: Mapping[str, str]) -> Path:
    """Airflow's dags folder, which may be missing. Raises WrongDefinitionError for a relative one."""
    given = core_option(environ, "dags_folder")
    return _place("dags_folder", given.value, environ) if given else airflow_home(environ) / "dags"


def is_configured(environ: Mapping[str, str]) -> bool:
    """Whether somebody has said where their Airflow is, or has one where it is by default."""
    said = ("AIRFLOW_HOME", "AIRFLOW_CONFIG", "AIRFLOW__CORE__DAGS_FOLDER")
    return any(environ.get(name) for name in said) or airflow_home(environ).is_dir()


def core_option(environ: Mapping[str, str], name: str) -> Given | None:
    """What `[core]` of Airflow's configuration says of one of Airflow's own options; None where it says nothing."""
    variable = f"AIRFLOW__CORE__{name.upper()}"
    if environ.get(variable):
        return Given(_expanded(environ[variable], environ), variable)
    file = config_file(environ)
    parser = ConfigParser(interpolation=None, strict=False)
    with suppress(OSError, UnicodeDecodeError, ConfigParserError):  # which Airflow itself complains of
        parser.read_string(file.read_text("utf-8"))
    value = parser.get("core", name, fallback="")
    return Given(_expanded(value, environ), f"[core] {name} in {file}") if value else None


def airflow_options(environ: Mapping[str, str], known: Collection[str]) -> dict[str, Given]:
    """What Airflow's configuration says of Tidegate, by option; what is empty isn't said.

    Raises WrongDefinitionError for an option that isn't known, or that names a command or a secret, and for a file that
    can't be read.
    """
    file = config_file(environ)
    in_file = {name: Given(value, f"[{SECTION}] {name} in {file}") for name, value in _section(file, known).items()}
    variables = {
        variable.removeprefix(PREFIX).lower(): Given(value, variable)
        for variable, value in environ.items()
        if variable.startswith(PREFIX)
    }
    found = in_file | variables
    for name, given in found.items():
        _check_name(name, given.origin, known)
    expanded = {name: Given(_expanded(given.value, environ), given.origin) for name, given in found.items()}
    return {name: given for name, given in expanded.items() if given.value}


def _place(variable: str, path: str, environ: Mapping[str, str]) -> Path:
    place = Path(_expanded(path, environ))
    if not place.is_absolute():
        raise WrongDefinitionError(
            f"{variable} is {path}, which each process looks for in its own working folder: write the whole path"
        )
    return place


def _section(file: Path, known: Collection[str]) -> dict[str, str]:
    """The options of the file's section; none where there is no file, or nothing but comments in the section.

    Of `[DEFAULT]`, whose options are in every section, only those that are known.
    """
    try:
        text = file.read_text("utf-8")
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it isn't UTF-8"
        raise WrongDefinitionError(f"Airflow's configuration {file} can't be read ({why}): correct that") from None
    if f"[{SECTION}]" not in text or not _SAYS_SOMETHING.search(text):
        return {}  # parsing a whole airflow.cfg takes time, and most have nothing for us
    parser = ConfigParser()
    try:
        parser.read_string(text)
        names = parser.options(SECTION) if parser.has_section(SECTION) else ()
        own = [name for name in names if name in known or name not in parser.defaults()]
        return {name: parser.get(SECTION, name) for name in own}
    except InterpolationError as error:  # quotes the value, which may be a password
        raise WrongDefinitionError(
            f"[{SECTION}] {error.option} in {file} has a % that Airflow takes for the beginning of a name: write %%"
        ) from None
    except ConfigParserError as error:  # quotes lines, which may be secrets
        raise WrongDefinitionError(
            f"Airflow's configuration {file} can't be read ({_wrong_line(error)}): correct that"
        ) from None


def _wrong_line(error: ConfigParserError) -> str:
    match error:
        case DuplicateOptionError() | DuplicateSectionError():
            return f"line {error.lineno} says what was said before"
        case ParsingError(errors=[(line, _), *_]):
            return f"line {line} is neither a section nor an option"
        case _:
            return f"line {getattr(error, 'lineno', 1)} belongs to no section"


def _check_name(name: str, origin: str, known: Collection[str]) -> None:
    indirect = _INDIRECT.fullmatch(name)
    if indirect and indirect[1] in known:
        raise WrongDefinitionError(
            f"{origin} names a command or a secret, which not all processes would ask: remove it, and set "
            f"TIDEGATE_{indirect[1].upper()} in the environment of each of Airflow's processes"
        )
    if name not in known:
        raise WrongDefinitionError(
            f"{origin} isn't an option of Tidegate{did_you_mean(name, known)}: the options are {', '.join(known)}"
        )


def _expanded(text: str, environ: Mapping[str, str]) -> str:
    """The text with the values of the variables that it names; what isn't set stays, as Airflow leaves it."""
    for _ in range(_NESTED):
        before = text
        named = _VARIABLE.sub(lambda found: environ.get(found[1] or found[2], found[0]), text)
        text = expanduser(named)  # noqa: PTH111 (that of Path raises for a user who isn't there)
        if text == before:
            break
    return text
