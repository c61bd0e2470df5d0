"""`make chaos`: servers, producers, two runners and the strikes against them, then the audit and its figures."""

import argparse
import faulthandler
import json
import os
import secrets
import shutil
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from rich.console import Console

from chaos.disk import can_mount, keep_mounts_private
from chaos.kinds import KINDS, mix, nodes_and_spark
from chaos.report import Report
from chaos.session import Chosen, play
from chaos.tasks import PROJECT
from tidegate.model.output_uri import OutputFormat
from tidegate_local.errors import LocalStackError
from tidegate_local.progress import Display

_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Let chaos reign and return the exit status: 0 if every promise held, else 1, 130 if interrupted."""
    options = _options(arguments)
    show = Display(Console(highlight=False, soft_wrap=True, stderr=options.json))
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a script's background job is born deaf to it
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # ends the blocks, and so the processes
    folder = Path(tempfile.mkdtemp(prefix="tidegate-chaos-"))
    folder.chmod(0o755)  # PostgreSQL runs as another user where this is root
    os.environ["TMPDIR"] = str(folder)  # what is killed leaves its temporary files
    nodes, spark = nodes_and_spark(options.seed)
    nodes = options.nodes or (1 if _ways(options.strategy) else nodes)
    spark = spark if options.spark is None else options.spark
    names = options.strategy or mix(options.seed, nodes, mounts=can_mount())
    kinds = tuple(KINDS[name].published_as(options.format) for name in names)
    chosen = Chosen(options.minutes, options.seed, options.rate, options.cap, spark, nodes, options.cache, kinds)
    try:
        if any(kind.has_own_disk for kind in kinds):
            keep_mounts_private()
        report = play(chosen, folder, os.getpid(), show)
    except LocalStackError as error:
        show.say(f"make chaos: {error}\nAll is kept in {folder}.", style="red")
        return 1
    except KeyboardInterrupt:
        shutil.rmtree(folder, ignore_errors=True)
        show.say("Interrupted; everything is stopped.")
        return _INTERRUPTED
    if report.is_clean:
        shutil.rmtree(folder, ignore_errors=True)
    _tell(report, show, as_json=options.json)
    return 0 if report.is_clean else 1


def _tell(report: Report, show: Display, *, as_json: bool) -> None:
    if as_json:
        sys.stdout.write(json.dumps(report.to_json(), indent=2) + "\n")
        return
    for line in report.lines():
        show.say(line)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="make chaos", description="Kills everything at random, then audits the lake.")
    parser.add_argument("--minutes", type=float, default=2.0, help="how long things are killed (default: 2)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), help="decides what is drawn")
    parser.add_argument("--rate", type=int, default=300, help="plain records a second (default: 300)")
    parser.add_argument("--cap", type=int, default=2000, help="max.poll.records (default: 2000)")
    parser.add_argument(
        "--spark",
        type=int,
        metavar="N",
        help="each N-th run uses real Spark; 0 for none (default: 5 or none by the seed)",
    )
    parser.add_argument("--nodes", type=int, choices=(1, 3), help="how many brokers (default: by the seed)")
    beside = "a subscription of this kind; more than once for several (default: after-processing and three by the seed)"
    parser.add_argument("--strategy", action="append", choices=KINDS, help=beside)
    written = "the format of the outputs, which others write into as well if they are tables; HTTP keeps Parquet"
    parser.add_argument("--format", choices=get_args(OutputFormat), default="parquet", help=written)
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--cache", type=Path, default=PROJECT / ".cache", help="where Kafka's jars are kept")
    given = parser.parse_args(arguments)
    if given.nodes not in (None, 1) and (ways := _ways(given.strategy)):
        parser.error(
            f"--nodes {given.nodes}: only a single broker has the listener of {', '.join(ways)}; leave one out"
        )
    return given


def _ways(strategies: Sequence[str] | None) -> list[str]:
    """Those that come to the broker by a listener of their own, which only a single one has."""
    return [name for name in strategies or () if KINDS[name].access != "direct"]
