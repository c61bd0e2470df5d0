"""When something runs: cron expressions and presets, as Airflow takes them."""

import re
from typing import Final

PRESETS: Final = (
    *("@once", "@continuous", "@hourly", "@daily"),
    *("@weekly", "@monthly", "@quarterly", "@yearly"),
)
"""Airflow's names of schedules."""

_FIELDS: Final = 5
_DRAWN = re.compile(r"(?i)(?<![a-z])[rh](?![a-z])")


def cron_complaint(expression: str) -> str | None:
    """What is wrong with a cron expression; None if nothing is."""
    # imported here: 30 ms that most parses, without a schedule, needn't pay; it comes with Airflow, without types
    from croniter import CroniterBadDateError, croniter  # type: ignore[import-untyped] # noqa: PLC0415

    if len(expression.split()) < _FIELDS:
        return "five fields were meant: minute, hour, day, month, weekday"
    if _DRAWN.search(expression):
        return "R and H draw a time at random, anew in each process: name it"
    try:
        croniter(expression).get_next()
    except CroniterBadDateError:
        return "no such day ever comes"
    except ValueError as error:
        return str(error)
    except (TypeError, KeyError, IndexError, AttributeError):
        return "not understood"  # croniter lets some of its own slips through
    return None
