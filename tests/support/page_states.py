"""The subscriptions of the tests of the page: five states that an operator meets, some that are fine, a hostile one."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from confluent_kafka import TopicPartition
from page_stack import AWAY, NO_BROKER, PageStack

SCRIPT = "<script>window.hacked=1</script><img src=x onerror=alert(1)>"
"""What a page that doesn't escape it would run."""
HOSTILE = "hostile"
"""The subscription that has it in its records, headers, failures, notes and description."""
HOSTILE_FILE = "<img src=x onerror=alert(1)>"
"""The name of a definition that would be a script as well."""
WRONG = b'{"id": 11, "country": "AT", "amount": "12,50"}'
_WAIT = 30


@dataclass(frozen=True)
class Broken:
    """How a subscription is broken: its verdict, and words of the reason that the page gives."""

    break_it: Callable[[PageStack, str], None]
    verdict: str
    reason: str


def orders(number: int, country: str = "AT") -> bytes:
    """One record."""
    return b'{"id": %d, "country": "%s", "amount": "%d.90"}' % (number, country.encode(), number % 90)


def many(count: int) -> list[bytes]:
    """So many records."""
    return [orders(number) for number in range(count)]


def delivered(stack: PageStack, name: str, *, batches: int = 1, partitions: int = 3, **properties: object) -> None:
    """A subscription with some batches in the lake, and nothing left to do."""
    stack.make_topic(name, partitions)
    stack.define(name, **properties)
    for _ in range(batches):
        stack.produce(name, many(40))
        stack.deliver(name)


def stopped(stack: PageStack, name: str) -> None:
    """Its job fails in a run of Airflow, which begins once Airflow is there."""
    delivered(stack, name, description="Card payments, one row each")
    stack.produce(name, [*many(11), WRONG, *many(20)])


def asked(stack: PageStack, name: str) -> None:
    """As stopped, and a person is to answer."""
    stack.make_topic(f"dead-{name}", 1)
    ask = {"failure-strategy": "ask", "dead-letter-queue.topic": stack.topic(f"dead-{name}")}
    delivered(stack, name, description="Orders of the shop", **ask)
    stack.produce(name, [*many(5), WRONG, *many(18)])


def unreachable(stack: PageStack, name: str) -> None:
    """Its broker is gone, which was there."""
    stack.line.connect(AWAY, "kafka", **{"bootstrap.servers": stack.broker.bootstrap_servers})
    delivered(stack, name, connection=AWAY, description="Parcels that left the warehouse")
    stack.line.connect(AWAY, "kafka", **NO_BROKER["extra"])


def lost(stack: PageStack, name: str) -> None:
    """Records that nobody has read are deleted."""
    delivered(stack, name, description="Counts of the shelves")
    stack.produce(name, many(60))
    gone = [TopicPartition(stack.topic(name), 0, 30), TopicPartition(stack.topic(name), 1, 25)]
    for each in stack.admin.delete_records(gone).values():
        each.result(_WAIT)
    stack.deliver(name, "it doesn't come so far")


def broken_definition(stack: PageStack, name: str) -> None:
    """Somebody mistyped a property after it had run."""
    delivered(stack, name)
    path = stack.line.subscriptions / f"{name}.yaml"
    path.write_text(path.read_text("utf-8") + "comit-strategy: manual\n", "utf-8")


BROKEN: Mapping[str, Broken] = {
    "shipments": Broken(unreachable, "UNREACHABLE", "broker"),
    "payments": Broken(stopped, "STOPPED", "is stopped"),
    "orders": Broken(asked, "STOPPED", "waits for an answer"),
    "stock": Broken(lost, "STALLED", "records are gone"),
    "refunds": Broken(broken_definition, "STALLED", "its definition is broken"),
}
IN_AIRFLOW = ("payments", "orders")
"""Those that runs of Airflow break."""


def fine(stack: PageStack) -> None:
    """Subscriptions without trouble: with a history, a lag, dead letters, and a batch that waits for its commit."""
    delivered(stack, "clicks", batches=4, description="What visitors of the shop look at")
    delivered(stack, "invoices", batches=2)
    stack.produce("invoices", many(240))
    stack.note_lag("clicks", [0, 12, 40, 31, 8, 0, 0, 22, 14, 3, 0])
    stack.note_lag("invoices", [900, 860, 845, 790, 700, 610, 540, 480, 400, 330, 270])
    stack.make_topic("dead-returns", 1)
    dead = {"failure-strategy": "dead-letter-queue", "dead-letter-queue.topic": stack.topic("dead-returns")}
    delivered(stack, "returns", **dead)
    stack.produce("returns", many(6))
    stack.deliver("returns", "no such column: reason_code")
    stack.produce("returns", many(2))  # a run that finds nothing takes its whole poll timeout
    stack.deliver("returns")
    delivered(stack, "exports", **{"commit-strategy": "manual"})


def hostile(stack: PageStack) -> None:
    """One whose records, keys, headers, failures, notes and description would be scripts, if a page let them."""
    stack.make_topic(f"dead-{HOSTILE}", 1)
    properties = {"failure-strategy": "dead-letter-queue", "dead-letter-queue.topic": stack.topic(f"dead-{HOSTILE}")}
    stack.make_topic(HOSTILE, 1)
    stack.define(HOSTILE, description=SCRIPT, **properties)
    stack.produce(HOSTILE, [SCRIPT.encode()] * 3, {SCRIPT: SCRIPT.encode()})
    stack.deliver(HOSTILE, SCRIPT)
    stack.produce(HOSTILE, [SCRIPT.encode()] * 3, {SCRIPT: SCRIPT.encode()})
    stack.deliver(HOSTILE)
    stack.define(HOSTILE, description=SCRIPT, **{**properties, "failure-strategy": "fail"})
    stack.produce(HOSTILE, [SCRIPT.encode()] * 3, {SCRIPT: SCRIPT.encode()})
    stack.deliver(HOSTILE, SCRIPT)
    stack.clear(HOSTILE, SCRIPT)
    stack.deliver(HOSTILE, SCRIPT)
    (stack.line.subscriptions / f"{HOSTILE_FILE}.yaml").write_text("topics: 1\n", "utf-8")
    stack.observe()


def set_up(stack: PageStack) -> None:
    """All of them; Airflow starts meanwhile, and then runs what is to run there."""
    for name, broken in BROKEN.items():
        if name not in IN_AIRFLOW:
            broken.break_it(stack, name)
    fine(stack)
    for name in IN_AIRFLOW:
        BROKEN[name].break_it(stack, name)
    stack.server.wait()
    stack.run_in_airflow(*IN_AIRFLOW)
    stack.observe()
