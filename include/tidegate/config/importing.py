"""The child process that imports transforms: `importing.py FD [FOLDER ...]`, with what to import as JSON on its stdin.

Runs by itself and imports nothing of Tidegate, so that a transform finds here what it finds in the Spark job. An error
is told with the line in these folders, or in the module's own package, that it comes from. It answers on the file
descriptor with one line of JSON for each module: what is wrong, by function. Whatever a module prints goes nowhere.
The caller bounds its time and ends it.
"""

import difflib
import importlib
import importlib.util
import inspect
import json
import os
import sys
import traceback
from pathlib import Path
from typing import Any

_LONGEST = 500  # characters of an error
_NEEDS_SPARK = ("[NO_ACTIVE_OR_DEFAULT_SESSION]", "[SESSION_OR_CONTEXT_NOT_EXISTS]")  # of PySpark 4.1, and of 4.0
"""In the error of a module that can't be imported here, though in a job, which has a session: `@udf("string")` of Spark
Connect's client asks one."""


def main(channel: int, folders: list[str]) -> None:
    """Import every module of the question and answer for each.

    The question is `{"modules": {module: [function, ...]}, "calls": [[argument, ...], ...]}`.
    """
    os.set_inheritable(channel, False)  # noqa: FBT003 (it takes no keyword); else what a module starts holds it open
    asked = json.load(sys.stdin)
    sys.path.extend(filter(None, os.environ.get("PYTHONPATH_LAST", "").split(os.pathsep)))
    for module, functions in asked["modules"].items():
        os.write(channel, json.dumps(_wrong(module, functions, asked["calls"], folders)).encode() + b"\n")
    os._exit(0)  # a thread that a module left behind must not keep us


def _wrong(module: str, functions: list[str], calls: list[list[str]], folders: list[str]) -> dict[str, str]:
    """What is wrong with each function that can't be called."""
    try:
        found = importlib.import_module(module)
        looked = {name: _missing(found, name) or _uncallable(getattr(found, name), calls) for name in functions}
        return {name: wrong for name, wrong in looked.items() if wrong}
    except BaseException as error:  # noqa: BLE001 - a module may raise anything, SystemExit too
        if any(condition in str(error) for condition in _NEEDS_SPARK):
            return {}
        return dict.fromkeys(functions, _told(error, [*folders, *_places(module)]))


def _may_be_called(found: object) -> bool:
    """A class isn't called: its instance may be, as a notifier."""
    return callable(found) and not isinstance(found, type)


def _uncallable(function: Any, calls: list[list[str]]) -> str:
    """What is wrong with a function that none of these calls fits; some of what is written in C doesn't tell."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(function.__call__):
        return "it is async, and nobody awaits what it returns: write it with def"
    try:
        signature = inspect.signature(function)
    except ValueError:
        return ""
    if not calls or any(_takes(signature, call) for call in calls):
        return ""
    named = " or ".join(f"f({', '.join(call)})" for call in calls)
    return f"it is called as {named}, and takes {signature}"


def _takes(signature: inspect.Signature, call: list[str]) -> bool:
    try:
        signature.bind(*call)
    except TypeError:
        return False
    return True


def _missing(module: Any, name: str) -> str:
    if _may_be_called(getattr(module, name, None)):
        return ""
    if isinstance(getattr(module, name, None), type):
        return f"its {name} is a class: name a function, or an instance that can be called"
    if hasattr(module, name):
        return f"its {name} isn't a function"
    callables = [each for each in dir(module) if callable(getattr(module, each, None))]
    near = next(iter(difflib.get_close_matches(name, callables, n=1)), None)
    return f"it has no function {name}" + (f"; did you mean {near}?" if near else "")


def _places(module: str) -> list[str]:
    """The file of a module, or the folders of the package that it is in, wherever that is installed."""
    try:
        spec = importlib.util.find_spec(module.partition(".")[0])
    except (ImportError, ValueError):
        return []
    if spec is None:
        return []
    return list(spec.submodule_search_locations or filter(None, [spec.origin]))


def _told(error: BaseException, places: list[str]) -> str:
    """The error's last line, and the line in these places that it comes from."""
    last = "".join(traceback.format_exception_only(error)).strip().splitlines()[-1][:_LONGEST]
    lines = [(frame.filename, frame.lineno) for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        lines.append((error.filename, error.lineno))
    ours = [(file, line) for file, line in lines if any(Path(file).is_relative_to(place) for place in places)]
    return f"{ours[-1][0]}:{ours[-1][1]}: {last}" if ours else last


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
