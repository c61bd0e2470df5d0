"""`make run`: from nothing to committed batches on a real Kafka, Spark and Airflow, and then stays up."""

import argparse
import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tidegate_local.airflow_home import USER
from tidegate_local.batches import batches
from tidegate_local.dag_runs import run_until_caught_up, total
from tidegate_local.errors import LocalStackError
from tidegate_local.flights import FLIGHTS, TOPIC, holdings, publish_flights
from tidegate_local.lag import PartitionLag, group_lag
from tidegate_local.preflight import preflight
from tidegate_local.progress import Display
from tidegate_local.run_lock import run_lock
from tidegate_local.samples import SAMPLES, ParquetSample
from tidegate_local.servers import checked
from tidegate_local.stack import Stack
from tidegate_local.summary import Summary, print_summary

PROJECT = Path(__file__).resolve().parents[2]
_INTERRUPTED = 130
_CHECK_SECONDS = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the local stack and return the exit status: 0 when everything was committed, else 1, 130 if interrupted."""
    options = _options(arguments)
    show = Display()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background job is born deaf to it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the blocks, and so the servers
    try:
        with run_lock(options.project / "data" / "run.lock"):
            ready = preflight(options.project / "data", os.environ)
            sample = SAMPLES[options.format](options.project)
            with Stack(sample, ready, show) as stack:
                return _run(stack, sample, show, once=options.once)
    except LocalStackError as error:
        return _failed(error, show)
    except KeyboardInterrupt:
        show.say("Interrupted; everything is stopped. make run goes on from here.")
        return _INTERRUPTED


def _run(stack: Stack, sample: ParquetSample, show: Display, *, once: bool) -> int:
    """What is wrong is said at once, before the servers are stopped, which takes a while."""
    try:
        with checked(stack.check):
            complete = _work(stack, sample, show)
            if not once:
                _stay_up(stack, sample, show)
            return 0 if complete else 1
    except LocalStackError as error:
        return _failed(error, show)


def _failed(error: LocalStackError, show: Display) -> int:
    show.say(f"make run: {error}", style="red")
    return 1


def _work(stack: Stack, sample: ParquetSample, show: Display) -> bool:
    stack.start()
    bootstrap = stack.broker.bootstrap_servers
    with show.bar(f"Departures published to topic {TOPIC}", FLIGHTS) as published:
        new = publish_flights(bootstrap, progress=published)
    if not new:
        show.say("  (all were there already)")
    stack.wait()
    with stack.airflow.client() as client:
        with show.step(f"DAG {sample.subscription}"):
            client.wait_for_dag(sample.subscription)
            client.unpause(sample.subscription)

        def lag() -> tuple[PartitionLag, ...]:
            return group_lag(bootstrap, sample.group, TOPIC)

        with show.bar("Offsets committed by its runs", total(lag())) as committed:
            logs = stack.airflow.home.folder / "logs"
            runs = run_until_caught_up(client, sample.subscription, lag, committed, logs)
    known = batches(sample.subscription, stack.environment)
    with show.step("Rows counted by Spark"):
        lake = sample.count(stack.spark.session(), known)
    summary = Summary(
        subscription=sample.subscription,
        runs=runs,
        batches=known,
        lags=lag(),
        topic=holdings(bootstrap),
        lake=lake,
    )
    print_summary(summary, show.console)
    return summary.complete


def _stay_up(stack: Stack, sample: ParquetSample, show: Display) -> None:
    home = stack.airflow.home
    show.say(
        f"\nAirflow         {home.url}  user {USER}, password {home.password()}\n"
        f"Kafka           {stack.broker.bootstrap_servers}, topic {TOPIC}, group {sample.group}\n"
        f"Spark Connect   {stack.spark.address}, with the token in {stack.token_file}\n"
        f"Command line    . data/connections.sh; .venv/bin/tidegate status {sample.subscription}\n"
        f"All stays up until Ctrl-C; a later make run goes on from here."
    )
    try:
        while True:
            stack.check()
            time.sleep(_CHECK_SECONDS)
    except KeyboardInterrupt:
        show.say("Stopping ...")


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make run", description="Runs Tidegate on a real local stack.")
    parser.add_argument("--once", action="store_true", help="end after the summary instead of staying up")
    parser.add_argument("--format", choices=SAMPLES, default="parquet", help="of the output (default: parquet)")
    parser.add_argument("--project", type=Path, default=PROJECT, help="the project's folder (default: this one)")
    options = parser.parse_args(arguments)
    options.project = options.project.resolve()
    return options


if __name__ == "__main__":
    sys.exit(main())
