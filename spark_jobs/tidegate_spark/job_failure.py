"""Why a job failed: the last line that it prints, for whoever started it.

`tidegate-failure: {"cause": ..., "error": ..., "where": ...}`. The cause is `records` for an exception of the transform
or of the data, `unreachable` if there was no Spark to begin with, or a store or a service didn't answer, and `system`
for any other: no space, no memory, Spark lost, files gone, a fault of the job's own.
"""

import builtins
import inspect
import json
import linecache
import re
import sys
import sysconfig
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyspark
from pyspark.errors import (
    AnalysisException,
    PySparkAttributeError,
    PySparkException,
    PySparkTypeError,
    PySparkValueError,
    PythonException,
    QueryContextType,
)

from tidegate_spark.deserializers.step import DeserializationError, UnusableSchemaError
from tidegate_spark.outcome import DefinitionError

MARK = "tidegate-failure: "

_EXITED = "the transform, or what it calls, ended the job's process"
_RECORDS, _SYSTEM, _UNREACHABLE = "records", "system", "unreachable"

# The classes of the SQL standard, with which Spark's errors say whose fault they are: cardinality, data, constraints,
# external routines (a UDF), names and syntax; P0 is raise_error.
_OF_THE_DATA = ("21", "22", "23", "38", "39", "42", "P0")
# Files, tables, sources, functions and schemas that aren't there or are there already, and a column of a name twice.
_OF_NO_RECORD = (
    *("22KD1", "22KD3", "42704", "42710", "42711", "42883", "428FT"),
    *("42K02", "42K03", "42K04", "42KD9", "42P01", "42P06", "42P07", "42P08"),
)
_ON_ITS_DISK = re.compile(r"Path does not exist: file:/")
_NOT_LOADED = re.compile(r"\[(AVRO|PROTOBUF)_NOT_LOADED_")
_SQLSTATE = re.compile(r"SQLSTATE: (\w{5})")

_LACKS = (
    "No space left on device",
    "Disk quota exceeded",
    "Too many open files",
    "Cannot allocate memory",
    "OutOfMemoryError",
    "ExecutorLostFailure",
    "Python worker exited unexpectedly",
    "[PYTHON_VERSION_MISMATCH]",
    "[PACKAGE_NOT_INSTALLED]",
    "[UNSUPPORTED_PACKAGE_VERSION]",
)
_STORE_IS_AWAY = re.compile(r"Unable to execute HTTP request|failed on connection exception|NETWORK_CONNECTION")
"""In texts of S3A, Hadoop's and Arrow's clients. Spark's own connections break when a batch overwhelms executors."""
_SERVICE_IS_AWAY = re.compile(r"Connection refused|timed out")
"""In the exceptions of a transform's own clients."""
_SHORT = 160  # characters of Spark's own line after what the machine lacked: it ends in a long path
_FAULTS = (OSError, MemoryError, ImportError)
_OF_THE_PLAN = (AnalysisException, PySparkTypeError, PySparkValueError, PySparkAttributeError)

_WORKER_FRAME = re.compile(r'^\s*File "(?P<file>[^"]+)", line (?P<line>\d+), in (?P<function>.+)$', re.MULTILINE)
_INSTALLED = re.compile(r"/lib(64)?/python3[^/]*/|/(site|dist)-packages/|/(pyspark|py4j)[^/]*[.]zip/")
"""In the paths of files that were installed, by workers' Pythons too."""
_RAISE_ERROR = "raise_error("
_CAUSED_BY = re.compile(r"^Caused by: (?:[a-z]\w*[.])*(?P<cause>\S[^\n]*)$", re.MULTILINE)
_WITHOUT_CAUSE = "[TASK_WRITE_FAILED]"
"""In the text of an exception that says what failed, and not why."""
_JAVA_CLASS = re.compile(r"^(?:[a-z]\w*[.])+(?=[A-Z])")
_GRPC_DETAILS = re.compile(r'^\s*details = "(?P<details>[^\n]+)"$', re.MULTILINE)

_PACKAGE = Path(__file__).resolve().parent


class SparkUnreachableError(Exception):
    """Spark couldn't be reached, and nothing was begun."""


class TerminatedError(SystemExit):
    """Somebody wants the job's process to end: no failure of the job's."""


class TransformRaisedError(Exception):
    """The cause was raised by the transform: when it was called, or when Spark computed what it had returned."""

    def __init__(self, transform: Callable[..., Any], *, is_called: bool) -> None:
        super().__init__()
        self.transform = transform
        self.is_called = is_called


@contextmanager
def raised_by(transform: Callable[..., Any] | None, *, is_called: bool) -> Iterator[None]:
    """Raise what is raised as a TransformRaisedError of this transform; without one as it is."""
    try:
        yield
    except TerminatedError:
        raise
    except (Exception, SystemExit) as error:
        if transform is None:
            raise
        raise TransformRaisedError(transform, is_called=is_called) from error


@dataclass(frozen=True)
class JobFailure:
    """Whose fault it is that a job failed, the first line of its exception, and where in the user's code that is."""

    cause: str
    error: str
    where: str | None = None

    def line(self) -> str:
        """The line that the job prints."""
        return MARK + json.dumps(asdict(self))


def origin(error: BaseException) -> BaseException:
    """What was raised at first."""
    return error.__cause__ or error if isinstance(error, TransformRaisedError) else error


def text_of(error: BaseException) -> str:
    """The text of an exception; of a gRPC call that failed, the details alone."""
    text = str(error)
    details = _GRPC_DETAILS.search(text) if _is_sparks(error) else None
    return details["details"] if details else text


def failure_of(error: BaseException) -> JobFailure:
    """What to tell of an exception that ended the job."""
    raised = origin(error)
    of_transform = error if isinstance(error, TransformRaisedError) else None
    is_of_records = _is_of_records(raised, is_called=of_transform is not None and of_transform.is_called)
    where = _where(raised) or _place_of_transform(raised, of_transform.transform if of_transform else None)
    if isinstance(raised, SystemExit):
        return JobFailure(_SYSTEM, f"{_EXITED} by sys.exit({raised.code!r}): raise an exception instead", where)
    if isinstance(raised, SparkUnreachableError):
        return JobFailure(_UNREACHABLE, _first_line(raised))
    if isinstance(raised, DefinitionError):  # whose place is the property
        return JobFailure(_SYSTEM, _first_line(raised))
    if is_of_records:
        return JobFailure(_RECORDS, _first_line(raised), where)
    return JobFailure(_UNREACHABLE if _is_away(raised) else _SYSTEM, f"{_first_line(raised)}{_hint(raised)}", where)


def _is_away(error: BaseException) -> bool:
    """Whether a store or a service didn't answer."""
    if isinstance(error, PythonException):
        return bool(_SERVICE_IS_AWAY.search(_last_line(str(error))))
    if _is_sparks(error):
        return bool(_STORE_IS_AWAY.search(f"{error}\n{_stack_trace(error)}"))
    return any(away.search(str(error)) for away in (_STORE_IS_AWAY, _SERVICE_IS_AWAY))


def _hint(error: BaseException) -> str:
    """What to do about a file or a module that isn't where Spark runs."""
    if isinstance(error, PythonException) and issubclass(_worker_exception(str(error)), ImportError):
        return "; Spark's workers lack it: install it where they run, or put it into the transform's own package"
    if _is_sparks(error) and _ON_ITS_DISK.search(text_of(error)):
        return "; where Spark runs on other machines, files must be in a folder that all share, or in an object store"
    if _is_sparks(error) and (lacks := _NOT_LOADED.search(text_of(error))):
        module = f"org.apache.spark:spark-{lacks[1].lower()}_2.13:{pyspark.__version__}"
        return f"; have Spark load its module of the same version, as in spark.jars.packages {module}"
    return ""


def _is_of_records(error: BaseException, *, is_called: bool) -> bool:
    text = str(error)
    if isinstance(error, (*_FAULTS, UnusableSchemaError)) or any(lack in text for lack in _LACKS):
        return False
    if isinstance(error, PythonException):
        return not issubclass(_worker_exception(text), _FAULTS)
    if _is_sparks(error):
        state = next(iter(_SQLSTATE.findall(text)), "")
        return (
            state.startswith(_OF_THE_DATA) and state not in _OF_NO_RECORD if state else isinstance(error, _OF_THE_PLAN)
        )
    return is_called or isinstance(error, DeserializationError)


def _is_sparks(error: BaseException) -> bool:
    return isinstance(error, PySparkException) or type(error).__module__.partition(".")[0] in ("py4j", "grpc")


def _worker_exception(text: str) -> type[BaseException]:
    """The class of what a Python worker raised, as its name tells: of a module that is loaded here, or Python's."""
    module, _, name = _last_line(text).partition(":")[0].strip().rpartition(".")
    found = getattr(sys.modules.get(module), name, None) or getattr(builtins, name, Exception)
    return found if isinstance(found, type) and issubclass(found, BaseException) else Exception


def _first_line(error: BaseException) -> str:
    """The exception's name and the first line of its text; of one in a Python worker, or in Java, its own."""
    text = text_of(error).strip()
    if isinstance(error, PythonException):
        return _last_line(text)
    is_of_java = _is_sparks(error) and not isinstance(error, PySparkException)
    of_java = text.partition("\n: ")[2] if is_of_java else ""  # behind "An error occurred while calling ..."
    line = (of_java or text).partition("\n")[0].strip()
    if (lack := _lack(error)) and lack not in line:
        line = f"{lack}: {line if len(line) <= _SHORT else line[:_SHORT] + '…'}"
    elif _WITHOUT_CAUSE in line and (causes := _CAUSED_BY.findall(f"{text}\n{_stack_trace(error)}")):
        line = f"{line}; caused by {causes[-1]}"
    if of_java:
        return _JAVA_CLASS.sub("", line)
    return f"{type(error).__name__}: {line}" if line else type(error).__name__


def _lack(error: BaseException) -> str | None:
    """What the machine lacked, by the first word of it in the exception, its stack trace included."""
    text = f"{error}\n{_stack_trace(error)}"
    return next((lack for lack in _LACKS if lack in text), None)


def _stack_trace(error: BaseException) -> str:
    """Java's own trace, with what caused what, where Spark tells it."""
    if not isinstance(error, PySparkException):
        return ""
    trace = getattr(error, "getStackTrace", lambda: None)()
    return str(trace or "")


def _last_line(text: str) -> str:
    """The line of a traceback that names the exception: the first one behind its frames."""
    _, _, behind = text.rpartition("Traceback (most recent call last):")
    lines = [line for line in behind.splitlines() if line.strip()]
    return next((line for line in lines if not line.startswith(" ")), lines[-1] if lines else text).strip()


def _where(error: BaseException) -> str | None:
    """The innermost place in the user's code: of the traceback, of Spark's query context or of a worker's traceback."""
    places = [*_frames(error), *_call_sites(error), *_worker_frames(str(error))]
    return next((_place(file, line, function) for file, line, function in places if _is_users(file)), None)


def _frames(error: BaseException) -> Iterator[tuple[str, int, str]]:
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        yield frame.filename, frame.lineno or 0, frame.name


def _call_sites(error: BaseException) -> Iterator[tuple[str, int, str]]:
    if not isinstance(error, PySparkException):
        return
    for context in error.getQueryContext() or ():
        if context.contextType() == QueryContextType.DataFrame:
            file, _, line = context.callSite().rpartition(":")
            if line.isdecimal():
                yield file, int(line), ""


def _worker_frames(text: str) -> Iterator[tuple[str, int, str]]:
    for found in reversed(list(_WORKER_FRAME.finditer(text))):
        yield found["file"], int(found["line"]), found["function"]


def _place_of_transform(error: BaseException, transform: Callable[..., Any] | None) -> str | None:
    """The one line of the transform's module that raises errors, if that is what was raised; else the function."""
    code = getattr(inspect.unwrap(transform), "__code__", None) if transform else None
    if code is None:
        return None
    if isinstance(error, PySparkException) and error.getCondition() == "USER_RAISED_EXCEPTION":
        lines = [number for number, line in enumerate(linecache.getlines(code.co_filename), 1) if _RAISE_ERROR in line]
        if len(lines) == 1:
            return _place(code.co_filename, lines[0], "")
    return _place(code.co_filename, code.co_firstlineno, code.co_name)


def _place(file: str, line: int, function: str) -> str:
    code = linecache.getline(file, line).strip()
    return f"{file}:{line}" + (f", in {function}" if function else "") + (f": {code}" if code else "")


def _is_users(file: str) -> bool:
    path = Path(file)
    if not path.is_absolute() or _INSTALLED.search(file):
        return False
    return not any(path.is_relative_to(folder) for folder in _not_users())


@cache
def _not_users() -> tuple[Path, ...]:
    """Python's own folders, Spark's, and the job's own package."""
    python = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    return (*map(Path, python), Path(pyspark.__file__).parent, _PACKAGE)
