"""Unique tokens that come out alike whenever the same actor stands at the same place of its run."""

import hashlib
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch


class Tokens:
    """What `uuid.uuid4` draws in a simulation: a token is told by who draws it, where, and for the how-manieth time.

    So a history can be replayed, and two histories that bring an actor to the same place leave it with the same
    tokens, whatever the others did in between.
    """

    def __init__(self, seed: str = "") -> None:
        self._seed = seed
        self._place: object = None
        self._drawn = 0

    def at(self, *place: object) -> None:
        """From now on, tokens are drawn by this actor at this place of its run."""
        self._place = place
        self._drawn = 0

    def draw(self) -> uuid.UUID:
        """The next token."""
        self._drawn += 1
        seed = f"{self._seed}{self._place}{self._drawn}"
        return uuid.UUID(bytes=hashlib.blake2b(seed.encode(), digest_size=16).digest(), version=4)

    @contextmanager
    def drawn(self) -> Iterator[None]:
        """Whoever asks for a random UUID in this context gets one of these tokens."""
        with patch.object(uuid, "uuid4", self.draw):
            yield
