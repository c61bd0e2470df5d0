"""Variables that are named as settings and are none: a slip, which would be ignored in silence."""

import re
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from typing import Final

from tidegate.config.nearest import did_you_mean
from tidegate.config.settings import DEFAULTS, job_environment, variable

_PREFIX: Final = variable("")
OTHERS: Final = frozenset(
    {
        "TIDEGATE_AIRFLOW_FERNET_KEY",
        "TIDEGATE_AIRFLOW_JWT_SECRET",
        "TIDEGATE_AIRFLOW_PORT",
        "TIDEGATE_AIRFLOW_SECRET_KEY",
        "TIDEGATE_KAFKA_PORT",
        "TIDEGATE_POSTGRES_PASSWORD",
        "TIDEGATE_SPARK_EXECUTOR_MEMORY",
        "TIDEGATE_SPARK_PORT",
        "TIDEGATE_SPARK_UI_PORT",
        "TIDEGATE_SPARK_WORKER_CORES",
        "TIDEGATE_SPARK_WORKER_LIMIT",
        "TIDEGATE_SPARK_WORKER_MEMORY",
        "TIDEGATE_TEST_SPARK",
    }
)
"""What else the project reads: `make run`, docker-compose.yaml, and `tidegate test`."""
_OF_A_LANDING_JOB: Final = re.compile(rf"{_PREFIX}KAFKA_[0-9]+")
# Kubernetes tells each container of a service `tidegate`, or `tidegate-api`, by variables of these names.
_OF_A_SERVICE: Final = re.compile(
    rf"{_PREFIX}(.+_)?(SERVICE_HOST|SERVICE_PORT(_.+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)"
)


def unknown_variables(environ: Mapping[str, str]) -> Iterator[str]:
    """What to say of each variable that nobody reads; what the settings pass on to Spark jobs is somebody's.

    Raises WrongDefinitionError for settings that can't be read.
    """
    settings = [variable(name) for name in DEFAULTS]
    found = [name for name, value in environ.items() if value and name.startswith(_PREFIX) and not _is_known(name)]
    passed = job_environment(environ) if found else ()
    for name in sorted(found):
        if not any(fnmatchcase(name, pattern) for pattern in passed):
            yield (
                f"{name} isn't a setting of Tidegate{did_you_mean(name, settings)}, and is ignored: correct its name, "
                "or unset it; `tidegate settings` lists the settings"
            )


def _is_known(name: str) -> bool:
    is_setting = name.removeprefix(_PREFIX).lower() in DEFAULTS and name.isupper()
    return is_setting or name in OTHERS or any(each.fullmatch(name) for each in (_OF_A_LANDING_JOB, _OF_A_SERVICE))
