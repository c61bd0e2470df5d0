"""Files that only their owner can read: what is drawn once for an installation, and what repeats it."""

import os
from collections.abc import Callable
from pathlib import Path


def drawn_once(path: Path, draw: Callable[[], str]) -> str:
    """Return the file's text, which is drawn at first use."""
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_secret(path, draw())
    return path.read_text(encoding="utf-8")


def write_secret(path: Path, text: str) -> None:
    """Write the file at once whole, for its owner alone, whatever it was before."""
    drawn = path.with_name(f"{path.name}.new")
    drawn.unlink(missing_ok=True)
    with os.fdopen(os.open(drawn, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
        file.write(text)
    drawn.replace(path)
