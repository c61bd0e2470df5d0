"""How long each suite took, at the end of a whole run, and whether that is more than its budget.

`pytest --time-budget check` compares with the table `check` of tests/time_budgets.toml; without the option nothing is
measured, as of a single test there is nothing to say. A suite is a folder of tests/, and its time the sum over its
tests of set-up, call and tear-down, whichever worker ran them: in seconds.
"""

import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

BUDGETS = Path(__file__).parents[1] / "time_budgets.toml"
ALL = "all"
"""The budget of all suites together, in place of those of suites that have none."""
_SLOWEST = 5
_LONG_SECONDS = 20.0
"""A file that takes so long is named, as tests/file_order.toml should."""


class SuiteTimes:
    """Adds up what the reports say, in the process that has them all: under xdist the controller."""

    def __init__(self, run: str, budgets: Mapping[str, float]) -> None:
        self._run = run
        self._budgets = budgets
        self._suites: Counter[str] = Counter()
        self._modules: Counter[str] = Counter()

    def add(self, node_id: str, seconds: float) -> None:
        """Count seconds of a test: `tests/unit/model/test_batch.py::test_one`."""
        module = node_id.partition("::")[0]
        self._suites[suite_of(module)] += seconds
        self._modules[module] += seconds

    def over(self) -> Iterator[str]:
        """What is to be said of each suite that took more than its budget, or has none, and of all together."""
        for suite, seconds in sorted(self._suites.items()):
            budget = self._budgets.get(suite)
            if budget is None and ALL not in self._budgets:
                yield f"tests/{suite} has no budget: give it one in {BUDGETS.name}, table {self._run}"
            elif budget is not None and seconds > budget:
                yield self._beyond(f"tests/{suite}", seconds, budget, self._slowest(suite))
        together = self._suites.total()
        if together > self._budgets.get(ALL, together):
            yield self._beyond("all suites", together, self._budgets[ALL], self._slowest(None))

    def _beyond(self, what: str, seconds: float, budget: float, slowest: list[str]) -> str:
        return (
            f"{what} took {seconds:.0f} s in sum, and the budget is {budget:g} s: make tests faster, or raise it in "
            f"{BUDGETS.name}, table {self._run}, and say why. Slowest: {', '.join(slowest)}"
        )

    def _slowest(self, suite: str | None) -> list[str]:
        modules = self._modules.most_common()
        asked = [(name, took) for name, took in modules if suite is None or suite_of(name) == suite]
        return [f"{name} {took:.0f} s" for name, took in asked[:_SLOWEST]]

    def lines(self) -> Iterator[str]:
        """One line for each suite, one for all, and one for each file that takes long."""
        for suite, seconds in [*sorted(self._suites.items()), (ALL, self._suites.total())]:
            budget = self._budgets.get(suite)
            yield f"{suite}: {seconds:.0f} s" + ("" if budget is None else f" of {budget:g} s")
        for module, seconds in self._modules.most_common():
            if seconds >= _LONG_SECONDS:
                yield f"{module}: {seconds:.0f} s"

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.add(report.nodeid, report.duration)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if session.exitstatus == pytest.ExitCode.OK and any(self.over()):
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section(f"time by suite, and its budget for {self._run}")
        for line in self.lines():
            terminalreporter.line(line)
        for line in self.over():
            terminalreporter.line(f"FAILED time budget: {line}", red=True)


def suite_of(module: str) -> str:
    """The folder of tests/ that a module is in."""
    return module.removeprefix("tests/").partition("/")[0]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--time-budget", metavar="RUN", help="hold each suite to the budget that this kind of run has")


def pytest_configure(config: pytest.Config) -> None:
    run = config.getoption("time_budget")
    if run is None or hasattr(config, "workerinput"):
        return
    budgets = tomllib.loads(BUDGETS.read_text("utf-8"))
    if run not in budgets:
        raise pytest.UsageError(f"--time-budget {run}: {BUDGETS} has {', '.join(budgets)}")
    config.pluginmanager.register(SuiteTimes(run, budgets[run]), "suite-times")
