"""The landing engine `spark`: a job of its own has Spark's executors read the planned ranges and land them."""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate.model.batch import Batch, Landed
from tidegate.model.errors import (
    BatchFailedError,
    BrokerUnavailableError,
    LostDataError,
    UnavailableError,
    location,
    message,
)
from tidegate.model.landing_request import LandingRequest, account
from tidegate.model.subscription import Scalar
from tidegate.ports import LandingRequests, Processor, RecordSource

log = logging.getLogger(__name__)

_VARIABLE = "TIDEGATE_KAFKA_"
_LONGEST = 100_000  # characters in a variable: Linux takes no more than 131,071 bytes


@dataclass(frozen=True, slots=True)
class SparkLander:
    """Lands by a Spark job; implements ports.Lander.

    What `begin` gives runs the job, for `job_timeout` seconds at most. An executor waits `poll_timeout_ms` for the
    broker, and the job lands all of a share or nothing. `source` is only asked what became of records that the job
    couldn't read.
    """

    requests: LandingRequests
    begin: Callable[[], Processor]
    source: RecordSource
    poll_timeout_ms: int
    job_timeout: float

    def land(self, batch: Batch, member: int) -> Landed:
        """See ports.Lander. Raises UnavailableError where the job failed, or what it left isn't what it was to land."""
        processor = self.begin()
        processor.check()
        request = self.requests.submit(batch, member, self.poll_timeout_ms)
        try:
            return self._carried_out(processor, request)
        except BatchFailedError as failed:
            self.requests.cancel(request)
            self._refuse_loss(batch, request)
            raise UnavailableError(message(f"nothing was landed, and nothing has changed: {failed}", batch)) from failed
        except BaseException:
            self.requests.cancel(request)
            raise

    def _carried_out(self, processor: Processor, request: LandingRequest) -> Landed:
        processor.run(request.uri, self.job_timeout, lambda line: log.info("job: %s", line), lambda: None)
        left = self.requests.result(request)
        if left is None:
            raise BatchFailedError(
                message(
                    f"the landing job ended well and left no result in {request.folder}",
                    request,
                    "the landing must be on storage that all of Spark's machines share",
                )
            )
        return account(request, left)

    def _refuse_loss(self, batch: Batch, request: LandingRequest) -> None:
        """Raise LostDataError if records that were to be landed are gone; not while the broker is away."""
        try:
            now = self.source.watermarks([r.at for r in request.ranges])
        except BrokerUnavailableError as away:
            log.warning("whether the batch's records are still there isn't known: %s (%s)", away, batch)
            return
        for r in request.ranges:
            if not now[r.at].holds(r.start):
                where = location(topic=r.topic, partition=r.partition, offset=r.start)
                raise LostDataError(
                    message(
                        f"records are gone, the partition holds {now[r.at]}: nothing was landed",
                        f"{batch}, {where}",
                        "the next run says how to go on, or does by on-data-loss",
                    )
                )


def client_environment(client: Mapping[str, Scalar]) -> dict[str, str]:
    """The variables that hand the landing job its Kafka client: passwords show in no command and no document.

    `client` has Java's names. The texts are one JSON object, cut into parts that a variable can hold.
    """
    text = json.dumps({name: _text(value) for name, value in client.items()})
    parts = [text[start : start + _LONGEST] for start in range(0, len(text), _LONGEST)]
    return {f"{_VARIABLE}{number}": part for number, part in enumerate(parts)}


def _text(value: Scalar) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
