"""Why a request isn't carried out, and how that is answered."""

from collections.abc import Mapping, Sequence

from tidegate.model.errors import (
    GroupInUseError,
    LostDataError,
    StaleError,
    StoppedError,
    TidegateError,
    UnavailableError,
    UnusableLedgerError,
    WrongDefinitionError,
)

Details = Sequence[Mapping[str, str]]
"""What is wrong: each problem with the path of its `property` and a `message`."""


class RefusedError(Exception):
    """A request that changes nothing: the HTTP status, why in a line, and the problems of its body, if it has any."""

    def __init__(self, status: int, reason: str, problems: Details = ()) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason
        self.problems = tuple(problems)

    @classmethod
    def of(cls, error: TidegateError) -> "RefusedError":
        """What an error of the engine means to whoever asked over HTTP."""
        match error:
            case UnavailableError():
                status = 503
            case StaleError() | StoppedError() | GroupInUseError() | LostDataError():
                status = 409
            case UnusableLedgerError():
                status = 500
            case WrongDefinitionError():
                status = 422
            case _:
                status = 500
        return cls(status, str(error).partition("\n")[0])
