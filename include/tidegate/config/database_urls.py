"""What a database's URL must not hold, wherever one is given."""

PERCENT_ENCODED = "%40 for @, %2F for / and so on"
"""How a password is written in a URL."""


def has_split_password(host: str | None, database: str | None) -> bool:
    """Whether a part of the password was taken for the host's or the database's name, of a URL with one `@` too many.

    Whoever looks for that host says its name, and the password with it. `database` is None for one in a file.
    """
    return "@" in f"{host or ''}{database or ''}"
