"""`airflow tidegate ...`: Tidegate's own command line, among Airflow's commands."""

import argparse
import sys

from airflow.cli.cli_config import ActionCommand, Arg

from tidegate_airflow import import_from_dags_folder


def commands() -> list[ActionCommand]:
    """What Airflow adds to its command line."""
    return [
        ActionCommand(
            name="tidegate",
            help="Run a command of Tidegate: `airflow tidegate status`; `tidegate --help` lists them",
            func=run,
            args=[
                Arg(
                    ("command",), nargs=argparse.REMAINDER, help="The command and its options, as `tidegate` takes them"
                )
            ],
        )
    ]


def run(arguments: argparse.Namespace) -> None:
    """Run the command, with the modules of the dags folder as tasks have them; the process ends as `tidegate` would."""
    from tidegate.cli.connections import InsideAirflow, inside_airflow  # noqa: PLC0415 (each command imports this file)
    from tidegate.cli.entry import main  # noqa: PLC0415 (see above)
    from tidegate_airflow.connections import DatabaseConnections  # noqa: PLC0415 (see above)
    from tidegate_airflow.other_dags import other_dags  # noqa: PLC0415 (see above)
    from tidegate_airflow.pools import pool_names  # noqa: PLC0415 (see above)

    import_from_dags_folder()
    sys.argv = ["tidegate", *(arguments.command or ["--help"])]
    inside_airflow.set(InsideAirflow(DatabaseConnections(), pool_names, other_dags))
    main()
