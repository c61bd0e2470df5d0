"""The DAGs by which a person clears or commits a batch, or resets a group; `tidegate_airflow.operations` makes them."""

import os

from tidegate.config.settings import Settings
from tidegate_airflow.operations import operations

globals().update(operations(Settings.from_environment(os.environ)))
