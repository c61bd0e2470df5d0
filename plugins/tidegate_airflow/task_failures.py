"""How a task fails with an error that is expected: by one line in its log, without a trace.

Airflow logs a trace of whatever a task raises, but for a SystemExit: of that it only says that the task exited, and
retries it as any other failure. From Airflow 3.3 on a retry policy ends that where no retry can help; Airflow 3.2 knows
only AirflowFailException for it, of which it logs a trace.
"""

from typing import Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

try:
    from airflow.sdk import ExceptionRetryPolicy, RetryAction, RetryRule
except ImportError:
    ExceptionRetryPolicy = None


class TaskFailed(SystemExit):
    """The task has failed; the text is what its log says, for callbacks and mails."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = 1  # else Airflow's line has the text once more


class TaskFailedForGood(TaskFailed):
    """The task has failed, and no retry can help."""


RETRY_POLICY: Any = ExceptionRetryPolicy and ExceptionRetryPolicy(
    [RetryRule(TaskFailedForGood, RetryAction.FAIL, reason="a retry can't help: see the error above")]
)
"""The retry policy of a task that fails so: as many retries as it has, unless none can help; None in Airflow 3.2."""


def logged_failure(task: BaseOperator, text: str, *, for_good: bool) -> BaseException:
    """What to raise for the task to fail, once its log says why in one line."""
    task.log.error("%s", text)
    if not for_good:
        return TaskFailed(text)
    return AirflowFailException(text) if RETRY_POLICY is None else TaskFailedForGood(text)
