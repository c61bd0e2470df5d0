"""The text of a key or a certificate, pasted where the path of its file is meant: nothing of it may be shown."""


def is_pasted(value: str) -> bool:
    """Whether a value that should be a path is such a text."""
    return "-----BEGIN" in value or "\n" in value or "\r" in value
