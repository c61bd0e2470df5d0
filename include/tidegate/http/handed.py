"""What of a manifest a delivery over HTTP goes by."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tidegate.model.errors import BatchFailedError, UnavailableError, WrongDefinitionError
from tidegate.model.offsets import Range
from tidegate.parquet.locations import locate

_WHOLE_BATCH = "whole-batch"


@dataclass(frozen=True, slots=True)
class Handed:
    """One delivery: its records, and the folder of this machine that it may write to.

    `files` hold the records, those within the ranges; `records` is their number.
    """

    batch_id: str
    token: str
    records: int
    ranges: tuple[Range, ...]
    files: tuple[str, ...]
    staging: Path
    commits_acknowledged: bool

    @classmethod
    def read(cls, uri: str) -> Self:
        """The manifest at this place.

        Raises WrongDefinitionError for an output elsewhere, UnavailableError if the manifest can't be read.
        """
        system, path = locate(uri)
        try:
            with system.open_input_stream(path) as stream:
                document = json.loads(stream.read())
            staging = document["staging"]
            if not staging.startswith("file://"):
                raise WrongDefinitionError(
                    f"processing.output is {document['output']}: over HTTP it must be a folder of this machine, "
                    "because each answer is noted there at once"
                )
            return cls(
                batch_id=document["batch_id"],
                token=document["delivery"]["token"],
                records=document["records"],
                ranges=tuple(Range(r["topic"], r["partition"], r["start"], r["end"]) for r in document["ranges"]),
                files=tuple(file["uri"] for file in document["files"]),
                staging=Path(staging.removeprefix("file://")),
                commits_acknowledged=document["progress"] != _WHOLE_BATCH,
            )
        except OSError as error:
            raise UnavailableError(f"the manifest {uri} can't be read: {error}") from error
        except (ValueError, KeyError) as error:
            raise BatchFailedError(f"{uri} is no manifest that this version follows: {error!r}") from error

    @property
    def output(self) -> Path:
        """The folder that readers look into."""
        return self.staging.parent.parent

    @property
    def published(self) -> Path:
        """Where the batch is once it is published."""
        return self.output / f"batch_id={self.batch_id}"

    @property
    def deliveries(self) -> list[Path]:
        """The folders of all deliveries of the batch, also those that were set aside."""
        below = (self.output / "_staging", self.output / "_abandoned")
        return sorted(found for folder in below for found in folder.glob(f"{self.batch_id}-*"))
