"""How a task fails with an error that is expected: by one line in its log, without a trace.

Airflow logs a trace of whatever a task raises, but for a SystemExit: of that it only says that the task exited, and
retries it as any other failure.
"""

from airflow.sdk import BaseOperator, ExceptionRetryPolicy, RetryAction, RetryRule


class TaskFailed(SystemExit):
    """The task has failed; the text is what its log says, for callbacks and mails."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.code = 1  # else Airflow's line has the text once more


class TaskFailedForGood(TaskFailed):
    """The task has failed, and no retry can help."""


RETRY_POLICY = ExceptionRetryPolicy(
    [RetryRule(TaskFailedForGood, RetryAction.FAIL, reason="a retry can't help: see the error above")]
)
"""The retry policy of a task that fails so: as many retries as it has, unless none can help."""


def logged_failure(task: BaseOperator, text: str, *, for_good: bool) -> TaskFailed:
    """What to raise for the task to fail, once its log says why in one line."""
    task.log.error("%s", text)
    return TaskFailedForGood(text) if for_good else TaskFailed(text)
