"""Which files Spark hides from readers."""


def is_hidden(path: str) -> bool:
    """Whether readers skip a file, by its path below the folder that they read.

    As Spark decides it: whatever lies below a name `_x` or `.x` is hidden, a partition `_x=1` isn't.
    """
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in path.split("/"))
