"""Processes one batch: `jobs/process_batch.py MANIFEST_URI` reads it, transforms it and writes its outcome.

Started by spark-submit, or as a plain Python process with SPARK_REMOTE set to a Spark Connect server's
sc:// URL. Ends 0 when the result is written, 2 when the manifest, the transform or a record is wrong and trying
again won't help, 143 when it was terminated, 1 otherwise.
"""

import importlib
import inspect
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from tidegate_spark.batch_io import (
    Manifest,
    ManifestError,
    Result,
    open_batch,
    read_landed,
    read_manifest,
    read_records,
    write_outcome,
)
from tidegate_spark.context import BatchContext
from tidegate_spark.deserializers.step import DeserializationError
from tidegate_spark.job_failure import raised_by
from tidegate_spark.job_process import beside, run_job
from tidegate_spark.outcome import TransformError


def main(arguments: list[str]) -> int:
    """Process the batch whose manifest `arguments` name; the exit status says how it went."""
    started = time.monotonic()
    return run_job(
        "process_batch.py",
        arguments,
        lambda spark, uri: _run(spark, uri, started),
        (ManifestError, TransformError, DeserializationError),
    )


def load_transform(name: str) -> tuple[Callable[..., Any], ModuleType]:
    """The function that `name` (`module:function`) means, and its module. Raises TransformError."""
    module_name, colon, function_name = name.partition(":")
    if not (module_name and colon and function_name):
        raise TransformError(f"transform {name!r} isn't written as module:function")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            package = error.name.rpartition(".")[0] if error.name else ""
            how = f"which package {package} doesn't have; correct the import" if package else "install it"
            raise TransformError(f"transform {name}: {module_name} needs {error.name}, {how}") from error
        raise TransformError(
            f"transform {name}: there is no module {error.name}; put it into the folder spark_jobs of TIDEGATE_HOME "
            "(`tidegate settings` shows it)"
        ) from None
    function = getattr(module, function_name, None)
    if not callable(function):
        if hasattr(module, function_name):
            raise TransformError(f"transform {name}: its {function_name} isn't a function ({module.__file__})")
        raise TransformError(f"transform {name}: {module.__file__} has no function {function_name}")
    return function, module


def apply_transform(function: Callable[..., Any], records: DataFrame, batch: BatchContext, name: str) -> Any:
    """What `function` makes of the records; it is given the batch too if it takes two arguments.

    A second argument with a default is the function's own, unless it is called `batch`. Raises TransformError for a
    function that takes neither one argument nor two.
    """
    try:
        signature = inspect.signature(function)
    except ValueError:  # some of what is written in C doesn't tell
        return function(records)
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    second = [one.name for one in signature.parameters.values() if one.kind in kinds][1:2]
    if second != ["batch"] and _takes(signature, records):
        return function(records)
    if _takes(signature, records, batch):
        return function(records, batch)
    raise TransformError(f"transform {name} is called as f(records) or f(records, batch), and takes {signature}")


def _takes(signature: inspect.Signature, *arguments: object) -> bool:
    try:
        signature.bind(*arguments)
    except TypeError:
        return False
    return True


def _run(spark: SparkSession, manifest_uri: str, started: float) -> None:
    with TemporaryDirectory(prefix="tidegate-") as folder:
        _process(spark, read_manifest(spark, manifest_uri), Path(folder), started)


def _process(spark: SparkSession, manifest: Manifest, folder: Path, started: float) -> None:
    transform = None if manifest.transform is None else _loaded(spark, manifest.transform, folder)
    with beside(spark, read_landed(spark, manifest).count) as read:
        outcome: Any = read_records(spark, manifest)
        batch = open_batch(manifest)
        if transform is not None:
            with raised_by(transform, is_called=True):
                outcome = apply_transform(transform, outcome, batch, str(manifest.transform))
        with raised_by(transform, is_called=False):
            result = write_outcome(spark, manifest, outcome, batch, read)
    print(  # noqa: T201 (a program's own output)
        f"batch {manifest.batch_id}, delivery {manifest.delivery.number}: read {result.read} records; "
        f"wrote {_files(len(result.files))} of rows and {_files(len(result.rejected_files))} of rejected records; "
        f"filtered {result.filtered}; {_told(result)}attempt {result.attempt}; {time.monotonic() - started:.1f} s"
    )


def _loaded(spark: SparkSession, name: str, folder: Path) -> Callable[..., Any]:
    """The transform of this name, which Spark's workers can import from now on; `folder` is for what they are sent."""
    function, module = load_transform(name)
    # Importing the transform's own module fails on a worker, which has no session, if it decorates UDFs.
    cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]  # PySpark has no types for it
    spark.addArtifacts(str(_packed(module, folder)), pyfile=True)
    return function


def _told(result: Result) -> str:
    return "" if result.ack_files is None else f"{_files(len(result.ack_files))} of acknowledgements; "


def _files(number: int) -> str:
    return "1 file" if number == 1 else f"{number} files"


def _packed(module: ModuleType, folder: Path) -> Path:
    """A zip of the transform's top-level module or package and of `tidegate_spark`, for Spark's workers."""
    packed = folder / "transform.zip"
    tops = {module.__name__.partition(".")[0], "tidegate_spark"}
    with zipfile.ZipFile(packed, "w") as archive:
        for top in (sys.modules[name] for name in sorted(tops)):
            if hasattr(top, "__path__"):
                for root in map(Path, top.__path__):
                    for file in sorted(root.rglob("*.py")):
                        archive.write(file, file.relative_to(root.parent))
            elif top.__file__ is not None:
                archive.write(top.__file__, Path(top.__file__).name)
    return packed
