"""The tables of version 0.1, the first that was released: older ones are nobody's."""

revision = "0008"
down_revision = None


def upgrade() -> None:
    """Nothing comes before it."""
