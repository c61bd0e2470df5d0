"""A TCP proxy before a broker: what passes between clients and broker can be slowed down, held back, lost and cut.

It reads Kafka's frames (a length, then the request's kind and correlation id), so a fault can be aimed at one kind
of request: by its api key, before it reaches the broker or after the broker has carried it out.
"""

import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Literal, Self

from tidegate.testing.effects import Effect, Method
from tidegate_local.loopback import HOST

FETCH, LIST_OFFSETS, METADATA, OFFSET_COMMIT, OFFSET_FETCH, FIND_COORDINATOR = 1, 2, 3, 8, 9, 10
INIT_PRODUCER_ID, ADD_OFFSETS_TO_TXN, END_TXN, TXN_OFFSET_COMMIT = 22, 25, 26, 28

_Way = Literal["request", "answer"]


@dataclass(frozen=True)
class Fault:
    """What goes wrong, with requests of these kinds (of all kinds if there are none) or with their answers.

    `delay` in seconds slows both ways; `hold` keeps what goes that way, and all behind it on its connection, until the
    fault is over; `cut` breaks the connection in place of it. Either happens `times` often at most. The first `spare`
    of those that it concerns pass unharmed.
    `late` keeps the first such request aside and breaks its client's connection, so that the client sends it again by
    another one: a network that delivers late. `Traffic.deliver_late` lets the broker have it.
    `cut_after` breaks each connection after that many bytes of answers, within a frame. `refuse` ends new
    connections at once, and those that are there.
    """

    kinds: frozenset[int] = frozenset()
    delay: float = 0.0
    hold: _Way | None = None
    cut: _Way | None = None
    late: bool = False
    times: int = 1_000_000
    spare: int = 0
    cut_after: int | None = None
    refuse: bool = False

    def concerns(self, kind: int) -> bool:
        """Whether it is about requests of this kind."""
        return not self.kinds or kind in self.kinds


HEALTHY = Fault()


@dataclass(eq=False)
class _Connection:
    client: socket.socket
    broker: socket.socket
    kinds: dict[int, int] = field(default_factory=dict)  # by correlation id
    answered: int = 0  # bytes

    def close(self) -> None:
        self.hang_up()
        _close(self.broker)

    def hang_up(self) -> None:
        """Break it on the client's side alone."""
        _close(self.client)


@dataclass
class Strike:
    """Does something right before a port's method is called, the first time; implements effects.Watcher."""

    method: Method
    act: Callable[[], object]
    at: float | None = None

    def before(self, effect: Effect) -> None:
        """See `tidegate.testing.effects.Watcher`."""
        if effect == Effect.of(self.method) and self.at is None:
            self.at = time.monotonic()
            self.act()

    def after(self, effect: Effect) -> None:
        """See `tidegate.testing.effects.Watcher`; by then it is done."""


class Traffic:
    """Listens at `port` and passes everything on to the broker at `target`; `struck` counts what a fault hit."""

    def __init__(self, target: int) -> None:
        self.target = target
        self._listener = socket.create_server((HOST, 0))
        self.port: int = self._listener.getsockname()[1]
        self.struck: Counter[int] = Counter()
        self._spared = 0
        self._fault = HEALTHY
        self._changed = threading.Condition()
        self._open: set[_Connection] = set()
        self._late: list[tuple[socket.socket, bytes]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.close()
        self.cut()

    @contextmanager
    def faulty(self, fault: Fault) -> Iterator[None]:
        """The fault holds within the context; afterwards what was held back goes on its way."""
        self.struck.clear()
        self._spared = 0
        self._set(fault)
        try:
            if fault.refuse:
                self.cut()
            yield
        finally:
            self._set(HEALTHY)

    @property
    def connections(self) -> frozenset[object]:
        """Those that there are now."""
        return frozenset(self._open)

    def cut(self) -> None:
        """Break every connection that there is."""
        for each in tuple(self._open):
            each.close()

    def has_struck(self, kind: int, seconds: float) -> bool:
        """Wait until the fault holds one of this kind back; whether it did in time."""
        with self._changed:
            return self._changed.wait_for(lambda: self.struck[kind] > 0, seconds)

    def deliver_late(self) -> None:
        """Hand the broker what was kept aside, and wait until it has answered; nobody hears the answer."""
        while self._late:
            broker, frame = self._late.pop()
            with broker:
                broker.sendall(frame)
                if not _frame(broker):
                    raise ConnectionError("the broker hung up")

    def _set(self, fault: Fault) -> None:
        with self._changed:
            self._fault = fault
            self._changed.notify_all()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # the proxy has ended
                return
            if self._fault.refuse:
                self.struck[-1] += 1
                client.close()
                continue
            try:
                broker = socket.create_connection((HOST, self.target))
            except OSError:
                client.close()
                continue
            connection = _Connection(client, broker)
            self._open.add(connection)
            for pump in (self._requests, self._answers):
                threading.Thread(target=self._pump, args=(pump, connection), daemon=True).start()

    def _pump(self, pump: Callable[[_Connection], None], connection: _Connection) -> None:
        try:
            pump(connection)
        except OSError:  # one side has hung up, or a fault has: so does the other
            pass
        finally:
            connection.close()
            self._open.discard(connection)

    def _requests(self, connection: _Connection) -> None:
        while frame := _frame(connection.client):
            kind, _version, correlation = struct.unpack_from(">hhi", frame, 4)
            connection.kinds[correlation] = kind
            if self._keeps_aside(connection, kind, frame):
                return
            self._strike("request", kind)
            connection.broker.sendall(frame)

    def _answers(self, connection: _Connection) -> None:
        while frame := _frame(connection.broker):
            (correlation,) = struct.unpack_from(">i", frame, 4)
            self._strike("answer", connection.kinds.pop(correlation))
            connection.answered += len(frame)
            limit = self._fault.cut_after
            if limit is not None and connection.answered > limit:
                self.struck[-1] += 1
                connection.client.sendall(frame[: limit - connection.answered])
                raise BrokenPipeError
            connection.client.sendall(frame)

    def _keeps_aside(self, connection: _Connection, kind: int, frame: bytes) -> bool:
        if not (self._fault.late and self._fault.concerns(kind)) or self.struck[kind]:
            return False
        self.struck[kind] += 1
        self._late.append((socket.create_connection((HOST, self.target)), frame))
        connection.hang_up()
        return True

    def _strike(self, way: _Way, kind: int) -> None:
        """Do to a frame what the fault says; BrokenPipeError to cut."""
        fault = self._fault
        if not fault.concerns(kind) or (way == "answer" and self._is_spared(fault)):
            return
        if fault.delay:
            self.struck[kind] += 1
            time.sleep(fault.delay)
        if fault.cut == way and self.struck[kind] < fault.times:
            self.struck[kind] += 1
            raise BrokenPipeError
        if fault.hold == way and self.struck[kind] < fault.times:
            with self._changed:
                self.struck[kind] += 1
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._fault is not fault)

    def _is_spared(self, fault: Fault) -> bool:
        self._spared += 1
        return self._spared <= fault.spare


def _close(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


def _frame(source: socket.socket) -> bytes:
    """The next frame with its length, empty at the end, which may come within a frame."""
    length = _exactly(source, 4)
    body = _exactly(source, *struct.unpack(">i", length)) if length else b""
    return length + body if body else b""


def _exactly(source: socket.socket, count: int) -> bytes:
    found = bytearray()
    while len(found) < count:
        part = source.recv(min(count - len(found), 1 << 20))
        if not part:
            return b""
        found += part
    return bytes(found)
