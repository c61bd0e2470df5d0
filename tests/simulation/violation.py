"""What ends a history that breaks the promise."""


class ViolationError(Exception):
    """The promise is broken, or a run ends otherwise than with an error of the engine's own."""
