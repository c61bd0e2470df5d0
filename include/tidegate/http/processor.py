"""Delivers a batch over HTTP: a request for each record, noted as it is answered, and what isn't is given up."""

import logging
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit
from uuid import uuid4

import numpy as np
import pyarrow as pa

from tidegate.http.allowed import AllowedAddresses, refusal
from tidegate.http.credentials import curl_options, has_credentials, secret_headers
from tidegate.http.delivery_log import DeliveryLog, delivered, offsets_by_partition, within
from tidegate.http.failures import Failures, reason, told
from tidegate.http.handed import Handed
from tidegate.http.only_sender import only_sender, refuse_second
from tidegate.http.output import RejectedRecords, write_result
from tidegate.http.records import SortedRecords
from tidegate.http.request import Request, RequestBuilder
from tidegate.http.sender import Outcome, Sender
from tidegate.model.acknowledged import Offsets
from tidegate.model.errors import LONGER, DeliveryTimeoutError, StaleError, UnavailableError
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import HttpEndpoint
from tidegate.ports import Connection, Connections

log = logging.getLogger(__name__)

_WATCHED_SECONDS = 1.0
_TOLD_SECONDS = 10.0
_NONE = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class HttpProcessor:
    """The port `Processor` for `processing.kind: http`, to an output, a folder of this machine.

    `broker` and `consumer` are what the reference's headers say.

    Everything that an attempt leaves lies in a folder of its own in the delivery's staging, as a Spark job's does: a
    row for each record that was answered, rejected records, acknowledgements and, last of all, the result.
    """

    endpoint: HttpEndpoint
    connections: Connections = field(repr=False)
    allowed: AllowedAddresses
    broker: str
    consumer: str
    output: Path

    def check(self) -> None:
        """See `tidegate.ports.Processor`: whether the server can be reached, and nobody sends to the same output."""
        refuse_second(self.output)
        self.reach()

    def reach(self) -> None:
        """Find out whether credentials and address may be used, and somebody takes connections, whom they trust.

        Raises UnavailableError where nobody does, WrongDefinitionError for a certificate that isn't trusted.
        """
        with closing(self.sender(self.connection())) as sender:
            self._reach_address()
            if self.endpoint.uri.lower().startswith("https:") and (why := sender.connect()):
                raise self._away(f"no encrypted connection comes about ({why})")

    def run(
        self, manifest_uri: str, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        """See `tidegate.ports.Processor`; a record that an earlier delivery was answered for isn't sent again."""
        handed = Handed.read(manifest_uri)
        with only_sender(handed.output):
            self._run_alone(handed, timeout, said, watch)

    def connection(self) -> Connection | None:
        """The one that has the credentials, which may take seconds to look up; None without one."""
        return self.connections.get(self.endpoint.connection) if self.endpoint.connection else None

    def sender(self, connection: Connection | None, failed: Callable[[Outcome], None] = lambda _: None) -> Sender:
        """A sender with the connection's credentials, which tells `failed` of attempts that are repeated."""
        return Sender(
            self.endpoint,
            self.allowed,
            self._options(connection),
            has_credentials=has_credentials(connection),
            failed=failed,
        )

    def builder(self, connection: Connection | None) -> RequestBuilder:
        """What makes requests, with the connection's secret headers."""
        return RequestBuilder(
            self.endpoint, broker=self.broker, consumer=self.consumer, secret_headers=secret_headers(connection)
        )

    def _reach_address(self) -> None:
        parts = urlsplit(self.endpoint.uri)
        host, port = parts.hostname or "", parts.port or (443 if parts.scheme.lower() == "https" else 80)
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except OSError as error:
            raise self._away(f"the name {host} can't be resolved ({error})") from None
        permitted = [each for each in found if self.allowed.permits(host, str(each[4][0]))]
        if not permitted:
            raise refusal(host, str(found[0][4][0]))
        last: OSError | None = None
        for family, kind, protocol, _, address in permitted:
            with socket.socket(family, kind, protocol) as tried:
                tried.settimeout(self.endpoint.connect_timeout_ms / 1000)
                try:
                    tried.connect(address)
                except OSError as error:
                    last = error
                else:
                    return
        raise self._away(f"nobody takes a connection ({last})")

    def _run_alone(
        self, handed: Handed, timeout: float | None, said: Callable[[str], None], watch: Callable[[], None]
    ) -> None:
        before = within(delivered(handed.deliveries), handed.ranges)
        if handed.published.exists():  # looked at last: what was published before has taken its log along
            raise StaleError("the batch is published: another delivery of it was faster, and nothing is sent again")
        attempt = handed.staging / uuid4().hex
        attempt.mkdir()
        copy = handed.staging / f".sorted-{attempt.name}"
        try:
            with closing(SortedRecords.sort(handed.files, handed.ranges, copy)) as records:
                delivery = _Delivery(
                    self,
                    handed,
                    attempt=attempt,
                    records=records,
                    before=before,
                    timeout=timeout,
                    said=said,
                    watch=watch,
                )
                delivery.carry_out()
        finally:
            with suppress(FileNotFoundError):
                copy.unlink()

    def _options(self, connection: Connection | None) -> dict[int, object]:
        return curl_options(self.endpoint, connection, self.allowed)

    def _away(self, why: str) -> UnavailableError:
        return UnavailableError(
            f"{self.endpoint.place} can't be reached: {why}: no delivery counts for it, the next run tries again; look "
            "at processing.uri, and at the server"
        )


class _Delivery:
    """One attempt at a batch, from its first request to its result."""

    def __init__(
        self,
        processor: HttpProcessor,
        handed: Handed,
        *,
        attempt: Path,
        records: SortedRecords,
        before: pa.Table,
        timeout: float | None,
        said: Callable[[str], None],
        watch: Callable[[], None],
    ) -> None:
        self._processor = processor
        self._handed = handed
        self._attempt = attempt
        self._records = records
        self._before = before
        self._timeout = timeout
        self._said = said
        self._watch = watch
        self._began = self._watched = self._told = time.monotonic()
        self._answered = 0
        self._rejected = RejectedRecords(attempt, records)
        self._failures = Failures(said)

    def carry_out(self) -> None:
        """Send what wasn't answered before, and leave a result."""
        connection = self._processor.connection()
        builder = self._processor.builder(connection)
        with (
            closing(self._processor.sender(connection, self._failures.note)) as sender,
            DeliveryLog(self._attempt) as delivery_log,
        ):
            delivery_log.carry_over(self._before)
            if self._before.num_rows:
                skipped = f"{self._before.num_rows:,} of {self._handed.records:,} records"
                self._said(f"{skipped} were answered in an earlier delivery and aren't sent again")
            for outcomes in sender.send(self._requests(builder), lambda: self._look(sender, delivery_log)):
                self._take(outcomes, delivery_log)
        self._rejected.close()
        answers = delivered([self._attempt.parent], self._attempt.name)
        write_result(self._handed, self._attempt, answers, self._rejected, delivery_log.files)
        self._said(self._progress())

    def _requests(self, builder: RequestBuilder) -> dict[TopicPartition, Iterator[Request]]:
        known = offsets_by_partition(self._before)
        return {at: self._requests_of(at, known.get(at, _NONE), builder) for at in self._records.partitions}

    def _requests_of(self, at: TopicPartition, known: Offsets, builder: RequestBuilder) -> Iterator[Request]:
        for message in self._records.messages(at, known, whole=builder.sees_all):
            try:
                request = builder.request(message)
            except ValueError as error:
                self._rejected.add(at, message.offset, f"no request can be made of it: {error}")
            else:
                yield request

    def _take(self, outcomes: Sequence[Outcome], delivery_log: DeliveryLog) -> None:
        self._failures.settle(outcomes)
        answered = [outcome for outcome in outcomes if outcome.is_success]
        delivery_log.add(answered)
        self._answered += len(answered)
        for outcome in outcomes if len(answered) < len(outcomes) else ():
            if not outcome.is_success:
                message = outcome.request.message
                self._rejected.add(message.at, message.offset, reason(outcome))

    def _look(self, sender: Sender, delivery_log: DeliveryLog) -> None:
        now = time.monotonic()
        if self._timeout is not None and now - self._began >= self._timeout:
            last = self._failures.last
            raise (sender.refused_credentials(last) if last else None) or self._overrun(self._timeout, last)
        if now - self._watched >= _WATCHED_SECONDS:
            self._watched = now
            delivery_log.keep()
            self._watch()
        if now - self._told >= _TOLD_SECONDS:
            self._told = now
            self._said(self._progress())

    def _progress(self) -> str:
        done = self._before.num_rows + self._answered
        speed = self._answered / max(time.monotonic() - self._began, 0.001)
        rejected = f", {self._rejected.number:,} rejected" if self._rejected.number else ""
        return f"{done:,} of {self._handed.records:,} records are delivered{rejected}; {speed:,.0f} a second"

    def _overrun(self, seconds: float, last: Outcome | None) -> DeliveryTimeoutError:
        done = self._before.num_rows + self._answered + self._rejected.number
        left = f"{self._handed.records - done:,} of {self._handed.records:,} records"
        why = f": {told(last)}" if last else ""
        return DeliveryTimeoutError(
            f"{left} weren't delivered to {self._processor.endpoint.place} within {seconds:.0f} s{why}; what was "
            f"delivered isn't sent again; look at the server, or {LONGER}; with processing.retry-before-commit a "
            "record that it doesn't take is rejected, unless its Retry-After is longer than a delivery"
        )
