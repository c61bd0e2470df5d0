"""The failure strategies by the words of the definition."""

from collections.abc import Mapping

from tidegate.failures.fail import Fail
from tidegate.failures.ignore import Ignore
from tidegate.failures.verdict import FailureStrategy as Strategy
from tidegate.subscription import FailureStrategy

FAILURE_STRATEGIES: Mapping[FailureStrategy, Strategy] = {"fail": Fail(), "ignore": Ignore()}
