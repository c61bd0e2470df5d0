"""The end of a history: everything arrives, a clean runner and a person finish alone, and the promise is checked."""

from simulation.clock import RunnerClock
from simulation.runs import Told, clears, commits, dag_run
from simulation.script import Produce
from simulation.subscriptions import MANY
from simulation.violation import ViolationError
from simulation.world import OUTPUT, EndLate, EndRedriveLate, World
from tidegate.model.batch import State
from tidegate.model.commit_policy import CommitPoint
from tidegate.model.receipt import Receipt
from tidegate.runtime.pipeline import Pipeline

RUNS = 12
_A_WHILE = 400  # seconds: a delivery that ended without a word isn't under way any more, and a retry is due
_ALL = 1_000_000


def finish(world: World, told: Told, *, orphans: bool = True) -> int:
    """Let a clean runner finish; the number of runs that it took. Raises ViolationError.

    With `orphans`, one more batch is run, and then nothing may lie about that no batch needs.
    """
    world.script.finish()
    while world.spark.late:
        world.tokens.at("driver", world.spark.late[0].delivery.token)
        world.spark.finish(0)
    if world.offsets.pending is not None:
        EndLate().happen(world)
    if world.redrives is not None:
        EndRedriveLate().happen(world)
    world.touched_all()
    with world.clock.returning():
        runs = _read_all(world, 0, told)
        if world.redrives is not None:
            world.tokens.at("clean redrive")
            world.redrives.finish(RunnerClock(world.clock))
            runs += _read_all(world, runs, told)
        world.audit.check_end(world)
        if orphans:
            world.script.add(Produce(0))
            _read_all(world, runs, told)
            _check_nothing_lies_about(world)
    return runs


def _read_all(world: World, before: int, told: Told) -> int:
    """Run until nothing is left to do; how many runs that took."""
    records = sum(len(log.entries) for log in world.read.values())  # a batch may take a single offset
    enough = RUNS + 2 * records if world.audit.promise.order.is_kept else RUNS
    for run in range(1, enough + 1):
        _run(world, before + run, told)
        if not (left := _left(world)):
            return run
    raise ViolationError(f"after {enough} runs of a clean runner, {left}")


def _run(world: World, run: int, told: Told) -> None:
    world.tokens.at("clean", run)
    clock = RunnerClock(world.clock)
    if world.subscription.max_retries < MANY or world.subscription.retry_topics:
        world.clock.wait(_A_WHILE)
    pipeline = world.pipeline(clock, f"clean {run}")
    try:
        dag_run(pipeline, told)
        _decide(world, pipeline, told)
    except Exception as error:
        if isinstance(error, ViolationError):
            raise
        raise ViolationError(f"a step broke in a clean runner: {error!r}") from error
    world.audit.look(world)


def _decide(world: World, pipeline: Pipeline, told: Told) -> None:
    """What a person does who looks after the subscription once a day."""
    still_open = world.ledger.look(world.subscription.name).open
    if still_open is None:
        return
    if still_open.state is State.HELD:
        world.audit.look(world)  # it was seen to have stopped
        clears(world.answer)(pipeline, told, 0)
    elif still_open.awaits_commit and world.subscription.commit_policy.commit_at is CommitPoint.MANUAL:
        commits(pipeline, told)


def _left(world: World) -> str:
    """What isn't done yet; empty if nothing."""
    snapshot = world.ledger.look(world.subscription.name)
    if snapshot.open is not None:
        return f"{snapshot.open} is still {snapshot.open.condition}"
    if not world.audit.promise.order.is_kept:
        return _unread(world)
    for at, log in world.read.items():
        position = world.offsets.positions.get(at)
        if position is None or position.offset != log.end(committed_only=True):
            return f"{at} stands at {position} of {log.end(committed_only=True)}"
        if Receipt.parse(position.metadata) is None:
            return f"{at} stands under {position.metadata!r}, which is no receipt"
    return ""


def _unread(world: World) -> str:
    """Of runs that commit nothing, whether the newest has taken all that its cap lets it, from the beginning."""
    newest = world.ledger.history(world.subscription.name, 1)
    ends = {r.at: r.end for r in newest[0].batch.ranges} if newest else {}
    wanted = min(world.subscription.consumer.max_poll_records, sum(log.high for log in world.read.values()))
    return "" if sum(ends.values()) >= wanted else f"no run has read all from the beginning: {ends}"


def _is_known(world: World, batch_id: str) -> bool:
    is_published = batch_id in world.lake.published_ids(OUTPUT, [batch_id])
    return not world.audit.lost_ledgers or is_published or batch_id in world.ledger.outcomes([batch_id])


def _check_nothing_lies_about(world: World) -> None:
    """Nothing is open, so nothing may be staged, and no file landed that no batch of the ledger or lake names.

    But for what was made for a batch that is known nowhere any more, once a ledger was lost, and for what a killed
    landing left below an earlier name of the definition: that stays where it is.
    """
    left = {name for name in world.staged if _is_known(world, name.partition("-")[0])}
    if left:
        raise ViolationError(f"left in staging: {', '.join(sorted(left))}")
    named = {file.uri for held in world.lake.published_attempts.values() for file in held.manifest.batch.files}
    if gone := named - world.landing.files.keys():
        raise ViolationError(f"published batches name landed files that are gone: {', '.join(sorted(gone))}")
    if world.audit.lost_ledgers or len(world.names) > 1:
        return
    for files in world.ledger.closed_files(world.subscription.name, _ALL).values():
        named |= files
    if orphans := world.landing.files.keys() - named:
        raise ViolationError(f"landed files that no batch names: {', '.join(sorted(orphans))}")
