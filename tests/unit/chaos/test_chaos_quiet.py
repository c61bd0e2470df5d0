import pytest

from chaos.kinds import KINDS
from chaos.quiet import Rest, most_runs


@pytest.mark.parametrize("name", KINDS)
def test_two_runs_are_enough_but_where_a_strategy_has_more_to_do(name: str) -> None:
    assert most_runs(KINDS[name]) == {"delayed-retry-topic": 6, "on-next-poll": 3}.get(name, 2)


@pytest.mark.parametrize(
    ("rest", "is_due"),
    [(Rest(0, 2), True), (Rest(2, 2), True), (Rest(3, 2), False), (Rest(1, 2, is_settled=False), False)],
)
def test_a_subscription_comes_to_rest_in_as_many_runs_as_it_may_take(rest: Rest, *, is_due: bool) -> None:
    assert rest.is_due is is_due
