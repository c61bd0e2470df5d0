"""Who may decide about a batch: a check of our own, the same for every auth manager of Airflow."""

from collections.abc import Sequence


def refusal(user: str | None, operators: Sequence[str]) -> str | None:
    """Why this user may not, naming both; None if they may. Without operators that is whoever Airflow lets."""
    if not operators or user in operators:
        return None
    who = f"{user} may not decide about batches" if user else "Airflow doesn't say who decides here"
    return f"{who}: only those whom TIDEGATE_OPERATORS names may: {', '.join(operators)}; nothing was changed"


def named(user: str | None) -> str:
    """The user, as the ledger is to keep them."""
    return user or "somebody whom Airflow doesn't name"
