"""The pipeline of a subscription as the command line opens it, with the connections of this environment."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tidegate.config.settings import Settings


@contextmanager
def pipeline_here(subscription: Any, settings: Settings) -> Iterator[Any]:
    """See `tidegate.runtime.pipeline.open_pipeline`, which is imported only here: it takes its time."""
    from tidegate.runtime.connections import AirflowConnections  # noqa: PLC0415 - see above
    from tidegate.runtime.pipeline import open_pipeline  # noqa: PLC0415 - see above

    with open_pipeline(subscription, settings, AirflowConnections(os.environ)) as pipeline:
        yield pipeline
