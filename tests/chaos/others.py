"""Others who write into the tables that subscriptions publish into, and what has become of their rows."""

from collections import Counter
from collections.abc import Sequence

from chaos.audit import NAMED, Verdict
from chaos.draws import Target
from chaos.fault import Fault, nothing
from chaos.outputs import THEIRS, Output
from chaos.tasks import Place


class Others:
    """They write time and again, a row into each table; one that can't be written to at that instant has one less."""

    def __init__(self, places: Sequence[Place]) -> None:
        self._places = [place for place in places if place.kind.has_table]
        self._number = 0
        self.appended: dict[str, set[str]] = {place.kind.name: set() for place in self._places}

    @property
    def faults(self) -> dict[Target, Fault]:
        """That they write is one of the strikes, where there are tables."""
        return {"table": Fault(self._join, nothing)} if self._places else {}

    def audit(self) -> Verdict:
        """Whether each row that they were told is in a table is there once, and none is there twice."""
        found = {place.kind.name: (self.appended[place.kind.name], place.output) for place in self._places}
        wrong = [said for name, (appended, output) in found.items() for said in _wrong(name, appended, output)]
        return Verdict(len(wrong), 0, 0, 0, 0, 0, examples=wrong[:NAMED])

    def _join(self) -> None:
        for place in self._places:
            self._number += 1
            batch_id = f"{THEIRS}{self._number}"
            try:
                has_joined = place.output.join(batch_id)
            except Exception:  # noqa: BLE001, S112 (servers are away, or whoever publishes was quicker)
                continue
            self.appended[place.kind.name] |= {batch_id} if has_joined else set()


def _wrong(name: str, appended: set[str], output: Output) -> list[str]:
    times = Counter(output.joined())
    lost = [f"{name}: the row {each} of others is lost" for each in sorted(appended - times.keys())]
    return [*lost, *(f"{name}: the row {each} of others is there {n} times" for each, n in times.items() if n > 1)]
