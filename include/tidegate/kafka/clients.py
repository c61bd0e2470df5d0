"""Making a Kafka client: what its library doesn't take is a fault of the connection, said in its own words."""

import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from confluent_kafka import Consumer, KafkaException, Producer
from confluent_kafka.admin import AdminClient

from tidegate.model.errors import WrongDefinitionError, location, message

_Client = TypeVar("_Client", Consumer, AdminClient, Producer)

_log = logging.getLogger("tidegate.kafka.client")
_FENCED = "fenced by a newer instance"
_log.addFilter(lambda record: _FENCED not in record.getMessage())  # that is raised, in plainer words


def create_client(make: type[_Client], configuration: Mapping[str, Any], logger: logging.Logger = _log) -> _Client:
    """A client, and where its own lines go; nothing is connected yet.

    Raises WrongDefinitionError for a configuration that the library refuses; it quotes no text that was given.
    """
    try:
        with ThreadPoolExecutor(1) as maker:  # in the main thread the library says TypeError for an interrupt
            return maker.submit(make, dict(configuration), logger=logger).result()
    except (KafkaException, ValueError, TypeError) as error:
        said = error.args[0].str() if isinstance(error, KafkaException) else error
        raise WrongDefinitionError(
            message(
                f"the Kafka client can't be made: {said}",
                location(group=configuration.get("group.id")),
                "look at the connection's extra",
            )
        ) from None
