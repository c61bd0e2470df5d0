"""The receiver of webhooks: a server, and what it has received, as its file has it."""

import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import csv

from chaos import receiver_program
from chaos.audit import Records, records
from tidegate_local.loopback import HOST, answers, free_port
from tidegate_local.servers import Awaited, Server

Integers = npt.NDArray[np.int64]
_START_SECONDS = 240
_COLUMNS = {"path": pa.string(), "partition": pa.int64(), "offset": pa.int64(), "number": pa.int64()}
_READ = csv.ReadOptions(column_names=list(_COLUMNS))
_CONVERT = csv.ConvertOptions(column_types=_COLUMNS, strings_can_be_null=False)
_UNKNOWN = -1


class Receiver(Awaited):
    """A server that starts when this object is made, and takes requests at `address` after `wait`.

    It writes a line for each request into `file`, whose folder is there, and one for each time that it starts.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._port = free_port()
        self.address = f"http://{HOST}:{self._port}"
        self._server = self._start()

    def wait(self) -> None:
        """Return when the server takes connections; raises ServerFailedError if it doesn't come up."""
        self._server.wait_until(lambda: answers(self._port), seconds=_START_SECONDS)

    def stop(self) -> None:
        """End the server; its file stays."""
        self._server.stop()

    def kill(self) -> None:
        """End the server by SIGKILL, as a crash would."""
        self._server.kill()

    def restart(self) -> None:
        """Start the server on the same port and file, and wait for it."""
        self.stop()
        self._server = self._start()
        self.wait()

    def _start(self) -> Server:
        command = [sys.executable, "-I", "-S", receiver_program.__file__, str(self._port), str(self._file)]
        return Server("The receiver of webhooks", command, log=self._file.with_suffix(".log"))


@dataclass(frozen=True)
class Received:
    """The requests of one subscription, in the order in which the receiver had them.

    `partitions`, `offsets` and `numbers` have an element for each request; `restarts`, which ascend, are how many
    requests there had been each time that the receiver was started after it had been killed.
    """

    partitions: Integers
    offsets: Integers
    numbers: Integers
    restarts: Integers

    @property
    def records(self) -> Records:
        """The record of each request."""
        return records(self.numbers, self.partitions)

    def of(self, partitions: Integers, offsets: Integers) -> Records:
        """The records that came from these places; where none did, one with a number below 0."""
        places = zip(self.partitions.tolist(), self.offsets.tolist(), strict=True)
        numbers = dict(zip(places, self.numbers.tolist(), strict=True))
        asked = zip(partitions.tolist(), offsets.tolist(), strict=True)
        return records([numbers.get(place, _UNKNOWN) for place in asked], partitions)


def read_received(file: Path, path: str) -> Received:
    """The requests to one path, of a file with a line for each and for each start of the receiver."""
    rows = csv.read_csv(file, read_options=_READ, convert_options=_CONVERT)
    is_mine = pc.equal(rows["path"], path)
    mine = rows.filter(is_mine)
    starts = np.cumsum(is_mine.to_numpy())[pc.equal(rows["path"], "").to_numpy()]
    partitions, offsets, numbers = (mine[name].to_numpy() for name in ("partition", "offset", "number"))
    return Received(partitions, offsets, numbers, starts[1:])
