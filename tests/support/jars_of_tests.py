"""Jars that tests alone need: their lock files lie here, as nothing of them is shipped."""

from dataclasses import dataclass
from pathlib import Path

from tidegate_local.maven_jars import Jar, JarSet


@dataclass(frozen=True)
class JarsOfTests(JarSet):
    """A set whose lock file is beside this module."""

    def locked(self, text: str | None = None) -> tuple[Jar, ...]:
        return super().locked(Path(__file__).with_name(self.lock).read_text("utf-8") if text is None else text)
