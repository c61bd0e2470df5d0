"""Where records are produced to outside of any transaction: what was acknowledged is there, and may come twice."""

import time
from collections.abc import Iterable, Mapping

from confluent_kafka import Producer

from tidegate.kafka.clients import create_client
from tidegate.kafka.closing import close
from tidegate.kafka.events import ClientErrors
from tidegate.kafka.producing import SETTINGS, RecordSender, UndeliveredError, peek
from tidegate.kafka.targets import Targets
from tidegate.model.errors import location
from tidegate.model.records import Outgoing
from tidegate.model.subscription import Scalar

_ONLY_WHAT_IS_CRITICAL = 2  # of librdkafka's own log lines: errors say the rest


class KafkaOutbox:
    """The port `Outbox` on a real cluster, by an idempotent producer that is made when it is first used.

    `client` is librdkafka's configuration, addresses and credentials included; `timeout`, in seconds, bounds each
    sending.
    """

    def __init__(self, client: Mapping[str, Scalar], timeout: float) -> None:
        self._client: dict[str, Scalar] = {**client, "log_level": _ONLY_WHAT_IS_CRITICAL}
        self._timeout = timeout
        self._client_errors = ClientErrors(self._client)
        self._producer: Producer | None = None
        group = client.get("group.id")
        self._where = location(group=str(group)) if group else "the outbox"

    def send(self, outgoing: Iterable[Outgoing]) -> int:
        """See `tidegate.ports.Outbox`. Raises CommitFailedError for a record that the broker doesn't take."""
        records = peek(outgoing)
        if records is None:
            return 0
        deadline = time.monotonic() + self._timeout
        if self._producer is None:
            self._client_errors = ClientErrors(self._client)
            configuration = {**self._client, **SETTINGS, "error_cb": self._client_errors.on_error}
            self._producer = create_client(Producer, configuration)
        targets = Targets(self._client, self._where, deadline)
        try:
            sent = RecordSender(self._producer, targets, deadline).send(records)
        except BaseException as error:
            self._producer.purge()
            self.close()  # a client that failed to deliver may refuse to go on
            if isinstance(error, UndeliveredError):
                outcome = "some of the records may be there"
                raise error.to_error(self._where, outcome, self._client_errors) from None
            raise
        self._client_errors.answered()
        return sent

    def close(self) -> None:
        """Disconnect; given up after 30 seconds, with a warning."""
        last, self._producer = [self._producer], None
        close(f"the client that produces, {self._where}", last.clear)
