"""`tidegate create-topics`: make the topics that a subscription's failed records go to."""

from typing import Annotated

import typer

from tidegate.cli.connections import connections_here
from tidegate.cli.console import Json, out, print_json
from tidegate.cli.pipeline import pipeline_here, told_if_slow
from tidegate.cli.settings import Name, settings_here


def create_topics(
    name: Name,
    *,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, help="Of each topic; default: as many as the largest topic that the subscription reads."),
    ] = None,
    replication_factor: Annotated[int | None, typer.Option(min=1, help="Default: the cluster's own.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be created, and do nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Create a subscription's dead-letter and retry topics, as far as they are missing.

    The connection's user must be allowed to. The topics that the subscription reads are their producers' to create.
    """
    from tidegate.kafka.new_topics import BROKERS_DEFAULT  # noqa: PLC0415 - `tidegate --help` needn't wait for it
    from tidegate.kafka.new_topics import create_topics as create  # noqa: PLC0415 - see above
    from tidegate.runtime.definitions import AllDefinitions  # noqa: PLC0415 - see above
    from tidegate.runtime.unmade_ledger import readable_ledger  # noqa: PLC0415 - see above
    from tidegate.security.client import kafka_client  # noqa: PLC0415 - see above
    from tidegate.steps.produced_topics import missing_topics, most_partitions, said_use  # noqa: PLC0415 - see above

    settings = settings_here()
    subscription = AllDefinitions(settings).load(name)
    with told_if_slow(), readable_ledger(settings) as readable, pipeline_here(subscription, readable) as pipeline:
        missing = missing_topics(subscription, pipeline.source)
        count = partitions or most_partitions(subscription, pipeline.source) or BROKERS_DEFAULT
    if missing and not dry_run:
        client = kafka_client(connections_here().get(subscription.connection))
        create(client, missing, count, replication_factor or BROKERS_DEFAULT)
    if as_json:
        number = None if count == BROKERS_DEFAULT else count
        print_json({"subscription": name, "dry_run": dry_run, "topics": missing, "partitions": number})
        return
    for topic in missing:
        of = "" if count == BROKERS_DEFAULT else f" with {count} partition{'s' if count > 1 else ''}"
        out.print(
            f"{'would create' if dry_run else 'created'} {topic}{of}{said_use(subscription, topic)}", markup=False
        )
    if not missing:
        out.print(f"{name}: no topic is missing that failed records go to", markup=False)
