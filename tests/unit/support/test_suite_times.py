from suite_times import SuiteTimes

ONE = "tests/unit/model/test_batch.py::test_one"
OTHER = "tests/unit/steps/test_plan.py::TestPlan::test_other[tests/dags]"


def test_a_suites_time_is_the_sum_over_its_tests_and_within_its_budget_nothing_is_said():
    times = SuiteTimes("check", {"unit": 3.0, "contracts": 1.0})
    for node_id, seconds in ((ONE, 1.0), (ONE, 0.5), (OTHER, 1.5), ("tests/contracts/test_clock.py::test_it", 0.2)):
        times.add(node_id, seconds)
    assert list(times.lines()) == ["contracts: 0 s of 1 s", "unit: 3 s of 3 s", "all: 3 s"]
    assert list(times.over()) == []


def test_a_file_that_takes_long_is_named():
    times = SuiteTimes("test", {"all": 90.0})
    for node_id, seconds in ((ONE, 19.0), (ONE, 2.0), (OTHER, 5.0)):
        times.add(node_id, seconds)
    assert list(times.lines()) == ["unit: 26 s", "all: 26 s of 90 s", "tests/unit/model/test_batch.py: 21 s"]


def test_a_suite_beyond_its_budget_is_named_with_its_slowest_modules():
    times = SuiteTimes("check", {"unit": 3.0})
    times.add(ONE, 1.0)
    times.add(OTHER, 2.6)
    (said,) = times.over()
    assert said.startswith("tests/unit took 4 s in sum, and the budget is 3 s: ")
    assert said.endswith("Slowest: tests/unit/steps/test_plan.py 3 s, tests/unit/model/test_batch.py 1 s")


def test_a_suite_without_a_budget_is_named():
    times = SuiteTimes("test", {})
    times.add(ONE, 0.1)
    assert list(times.over()) == ["tests/unit has no budget: give it one in time_budgets.toml, table test"]


def test_all_suites_together_have_a_budget_too():
    times = SuiteTimes("test", {"all": 3.0})
    times.add(ONE, 1.0)
    assert list(times.over()) == []
    times.add("tests/dags/test_plugin.py::test_it", 2.5)
    (said,) = times.over()
    assert said.startswith("all suites took 4 s in sum, and the budget is 3 s: ")
    assert said.endswith("Slowest: tests/dags/test_plugin.py 2 s, tests/unit/model/test_batch.py 1 s")
