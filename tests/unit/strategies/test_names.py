"""Names of strategies are for definitions, tables and people: what the code asks is what a strategy does."""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

from tidegate.model.commit_policy import COMMIT_POLICIES, CommitStrategy
from tidegate.model.failure_policy import FAILURE_POLICIES, FailureStrategy
from tidegate.strategies.failure.registry import FAILURE_STRATEGIES

ROOT = Path(__file__).parents[3]
FILES = sorted(
    path
    for folder in ("include/tidegate", "include/tidegate_local", "plugins", "spark_jobs")
    for path in (ROOT / folder).rglob("*.py")
)

NAMES = {*COMMIT_POLICIES, *FAILURE_POLICIES}


def has_strategy(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in NAMES


def compared(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the source of each comparison of a strategy with a name of one, or with a variable that has some."""
    variables = {
        target.id
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and any(map(has_strategy, ast.walk(node.value)))
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides, names = [node.left, *node.comparators], ast.walk(node)
        elif isinstance(node, ast.Match):
            sides, names = [node.subject], (each for case in node.cases for each in ast.walk(case.pattern))
        else:
            continue
        asked = " ".join(ast.unparse(side) for side in sides).lower()
        has_name = any(has_strategy(each) or (isinstance(each, ast.Name) and each.id in variables) for each in names)
        if has_name and ("commit" in asked or "failure" in asked):
            yield node.lineno, ast.unparse(node)


def test_comparisons_are_found() -> None:
    seen = [
        'batch.commit_strategy == "checkpoint"',
        'kind.commit in ("throttled", "latest")',
        'definition.top[COMMIT] != "ignore"',
        'subscription.failure_strategy == "ask"',
    ]
    for text in seen:
        assert [found for _, found in compared(ast.parse(text))] == [ast.unparse(ast.parse(text))]
    assert list(compared(ast.parse("match batch.commit_strategy:\n    case 'manual' | 'latest':\n        pass")))
    named = "_KEEPS = ('checkpoint',)\nif manifest.commit_strategy not in _KEEPS:\n    pass"
    assert [line for line, _ in compared(ast.parse(named))] == [2]
    assert not list(compared(ast.parse('auto_offset_reset == "latest"')))


def test_nothing_asks_for_a_strategy_by_its_name() -> None:
    assert [(path.name, *found) for path in FILES for found in compared(ast.parse(path.read_text()))] == []


def listed(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """The line and the source of each list of nothing but strategies."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Tuple | ast.List | ast.Set) and node.elts and all(map(has_strategy, node.elts)):
            yield node.lineno, ast.unparse(node)


def test_lists_of_strategies_are_found() -> None:
    assert [line for line, _ in listed(ast.parse('only_with=("commit-strategy", ("throttled",))'))] == [1]
    assert not list(listed(ast.parse('("commit-strategy", "throttled"), ()')))


def test_nothing_lists_strategies_by_their_names() -> None:
    """Who adds one would have to know of each list: a policy says what belongs to it."""
    policies = {"commit_policy.py", "failure_policy.py"}
    assert [
        (path.name, *found)
        for path in FILES
        if path.name not in policies
        for found in listed(ast.parse(path.read_text()))
    ] == []


def test_there_is_a_policy_for_each_name_that_a_definition_can_have() -> None:
    assert set(COMMIT_POLICIES) == set(get_args(CommitStrategy))
    assert set(FAILURE_POLICIES) == set(FAILURE_STRATEGIES) == set(get_args(FailureStrategy))
