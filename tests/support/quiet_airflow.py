"""The home of an Airflow that leaves the cores to other tests while nothing is to be done."""

from tidegate_local.airflow_home import AirflowHome


class QuietHome(AirflowHome):
    """Its scheduler looks twice a second: ten looks, as `make run` has them, take a fifth of a core."""

    def settings(self) -> dict[str, str]:
        """See `AirflowHome`."""
        return super().settings() | {"AIRFLOW__SCHEDULER__SCHEDULER_IDLE_SLEEP_TIME": "0.5"}
