"""What can go wrong with the local stack, grouped by who has to act."""


class LocalStackError(Exception):
    """Something about the local stack failed; the text says what happened and what to do."""


class PreflightError(LocalStackError):
    """The machine lacks what the stack needs (Java, a port, disk); nothing was started."""


class ServerFailedError(LocalStackError):
    """A server of the stack ended or didn't answer in time; the text has its log's last lines."""


class RunFailedError(LocalStackError):
    """A DAG run failed or moved nothing; the text has the failing task's error and where its log is."""
