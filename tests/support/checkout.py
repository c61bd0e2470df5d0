"""The folder that this checkout is in."""

from pathlib import Path

PROJECT = Path(__file__).resolve().parents[2]
