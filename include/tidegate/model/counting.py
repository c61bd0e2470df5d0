"""Numbers with what they count, as people read them."""


def counted(number: int, what: str, several: str = "") -> str:
    """`1 record`, `2,000 records`; `several` where more of it aren't named by an s."""
    return f"{number:,} {what if number == 1 else several or f'{what}s'}"
