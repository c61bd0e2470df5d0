"""Sends requests, many at once and in order of each partition, over connections that are kept open."""

import select
import socket
import time
from bisect import insort
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import closing
from itertools import takewhile
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pycurl

from tidegate.http.allowed import AllowedAddresses, refusal
from tidegate.http.request import Request
from tidegate.http.tls_refusal import Refusals, refusal_in
from tidegate.model.errors import BatchFailedError, TidegateError, UnauthorizedError, WrongDefinitionError
from tidegate.model.offsets import TopicPartition
from tidegate.model.subscription import HttpEndpoint

_FAILED = 400  # and above: an answer that isn't a success
_FIRST_BYTES = 500
_MOST_BYTES = 1_000_000
"""Of an answer; whoever sends more is cut off."""
_ASKS = 1 << 20  # bytes of a body before which libcurl asks whether it is wanted, unless it is told not to
_LONGEST_WAIT_SECONDS = 0.2
_UNHEARD_SECONDS = 1.0
"""If so long nobody asks libcurl, it wasn't the server that was slow."""
_POOL = 64  # handles; for each request libcurl looks through the connections of its pool for one that is idle
_UNSEEN_SECONDS = 0.01  # until libcurl is asked again about sockets that it doesn't tell
_UNAUTHORIZED = frozenset({401, 407})
_BROKEN = frozenset({pycurl.E_SEND_ERROR, pycurl.E_RECV_ERROR})
"""A connection broke: also what is left of a server's refusal of a certificate, if that wasn't read in time."""
_LOCAL_TLS = frozenset(
    {
        pycurl.E_BAD_FUNCTION_ARGUMENT,  # what libcurl says of a private key that it can't use
        pycurl.E_SSL_CACERT_BADFILE,
        pycurl.E_SSL_CERTPROBLEM,
        pycurl.E_SSL_CIPHER,
        pycurl.E_SSL_CRL_BADFILE,
        pycurl.E_SSL_ENGINE_INITFAILED,
        pycurl.E_SSL_ENGINE_NOTFOUND,
        pycurl.E_SSL_ENGINE_SETFAILED,
        pycurl.E_SSL_ISSUER_ERROR,
    }
)
"""Of the connection's own files, whose text may quote what was written in place of one."""
_NO_PLACE = frozenset({pycurl.E_UNSUPPORTED_PROTOCOL, pycurl.E_URL_MALFORMAT})

Later = deque[tuple[float, Request, int]]
"""Requests that wait for their next attempt, the first first: when that is due, and its number."""


class Outcome(NamedTuple):
    """What came of a record: the status of the last answer, or None and why there was none; its first bytes."""

    request: Request
    status: int | None
    reason: str
    first: bytes
    attempts: int

    @property
    def is_success(self) -> bool:
        """Whether it was answered with a status below 400."""
        return self.status is not None and self.status < _FAILED


class _Pool:
    """Connections of libcurl's that its handles share: `size` handles, of which so many are `under_way`."""

    __slots__ = ("multi", "size", "under_way")

    def __init__(self) -> None:
        self.multi = pycurl.CurlMulti()
        self.size = 0
        self.under_way = 0


class _Handle:
    """A request at a time, over a connection of its pool, and what is heard of it."""

    __slots__ = ("attempt", "begun", "curl", "first", "is_forgiven", "pool", "received", "request", "uri")

    def __init__(self, curl: Any, pool: _Pool) -> None:
        self.curl = curl
        self.pool = pool
        self.uri = b""
        self.request: Request | None = None
        self.attempt = 0
        self.begun = 0.0
        self.is_forgiven = False
        self.first = b""
        self.received = 0

    @property
    def asked_seconds(self) -> int:
        """How long its answer asks to wait before the next attempt, by Retry-After; 0 where it doesn't."""
        return int(self.curl.getinfo(pycurl.RETRY_AFTER))

    def begin(self, request: Request, attempt: int) -> None:
        """Send a request: what is heard from now on is its answer."""
        self.request, self.attempt, self.first, self.received = request, attempt, b"", 0
        self.begun, self.is_forgiven = time.monotonic(), False

    def forgive(self, seconds: float) -> None:
        """So long nobody listened: that isn't the server's fault."""
        self.begun += seconds
        self.is_forgiven = True

    def take(self, part: bytes) -> int:
        """A part of the answer; libcurl ends it if less is taken than it gave."""
        if self.received < _FIRST_BYTES:
            self.first += part[: _FIRST_BYTES - self.received]
        self.received += len(part)
        return len(part) if self.received <= _MOST_BYTES else 0


class Sender:
    """Sends to one endpoint; the connections outlast a call of `send`. `close` ends them.

    `options` are libcurl's by number, as credentials have them: never shown. Whether there are any, of which an answer
    says that they don't hold, `has_credentials` says. `failed` is told of each attempt after which there is another.
    """

    def __init__(
        self,
        endpoint: HttpEndpoint,
        allowed: AllowedAddresses,
        options: Mapping[int, Any] | None = None,
        *,
        has_credentials: bool = False,
        failed: Callable[[Outcome], None] = lambda _: None,
    ) -> None:
        self._endpoint = endpoint
        self._host = urlsplit(endpoint.uri).hostname or ""
        self._allowed = allowed
        self._options = dict(options or {})
        self._has_credentials = has_credentials
        self._failed = failed
        self._refusals = Refusals(self._host, self._options)
        self._refused: str | None = None
        self._failure: TidegateError | None = None
        self._socket: socket.socket | None = None
        self._pools = [_Pool()]
        self._free: list[_Handle] = []
        self._running: dict[Any, _Handle] = {}

    def close(self) -> None:
        """End what is under way, and the connections."""
        for handle in self._running.values():
            handle.pool.multi.remove_handle(handle.curl)
        for handle in (*self._running.values(), *self._free):
            handle.curl.close()
        self._running.clear()
        self._free.clear()
        for pool in self._pools:
            pool.multi.close()
        self._close_socket()

    def send(
        self, requests: Mapping[TopicPartition, Iterator[Request]], watch: Callable[[], None] = lambda: None
    ) -> Iterator[list[Outcome]]:
        """What came of the requests, as it is known, some at a time; of a partition they are begun in order.

        The next requests begin when the caller comes back for more. `watch` is called now
        and then; what it raises ends the sending. Raises WrongDefinitionError for an address that isn't allowed or a
        certificate that isn't trusted, UnauthorizedError where the server refuses certificate or credentials, and
        BatchFailedError for a connection that can't be encrypted: none is a record's fault. What was answered until
        then comes first.
        """
        waiting = {at: iter(each) for at, each in requests.items()}
        busy = dict.fromkeys(waiting, 0)
        later: Later = deque()
        listened = time.monotonic()
        while waiting or self._running or later:
            self._begin_due(later)
            self._fill(waiting, busy)
            listened = self._forgive_since(listened)
            for pool in self._pools:
                pool.multi.perform()
            outcomes = self._ended(later) + self._overdue(later)
            for outcome in outcomes:
                busy[outcome.request.message.at] -= 1
            if outcomes:
                yield outcomes
            if self._failure is not None:
                raise self._failure
            watch()
            if not outcomes and (self._running or later):
                self._wait(later)

    def connect(self) -> str | None:
        """Why no connection comes about, encrypted where the URI says so; None if one does, over which nothing is sent.

        Raises as `send` does.
        """
        with closing(self._new_handle().curl) as curl:
            curl.setopt(pycurl.URL, self._endpoint.uri.encode())
            curl.setopt(pycurl.CONNECT_ONLY, 1)
            try:
                curl.perform()
            except pycurl.error as error:
                if self._refused is not None:
                    raise refusal(self._host, self._refused) from None
                code, text = error.args
                self._refuse(curl, code, text)
                return str(text)
        return None

    def refused_credentials(self, outcome: Outcome) -> UnauthorizedError | None:
        """What there is to raise where this is the last word about a record; None if it isn't about the credentials."""
        if outcome.status not in _UNAUTHORIZED or not self._has_credentials:
            return None
        return UnauthorizedError(
            f"{self._endpoint.place} refuses the connection's credentials: it answers with HTTP status "
            f"{outcome.status}; renew those of the connection that processing.connection names: no record is rejected"
        )

    def _forgive_since(self, listened: float) -> float:
        """The time now. While nobody listened, as in a commit that waits for a broker, no request was late."""
        now = time.monotonic()
        if now - listened > _UNHEARD_SECONDS:
            for handle in self._running.values():
                handle.forgive(now - listened)
        return now

    def _wait(self, later: Later) -> None:
        """Until something happens, or is due."""
        due = max(later[0][0] - time.monotonic(), 0.0) if later else _LONGEST_WAIT_SECONDS
        pause = min(due, _LONGEST_WAIT_SECONDS)
        busy = [pool for pool in self._pools if pool.under_way]
        if len(busy) == 1:
            busy[0].multi.select(pause)
        elif busy:
            _select(busy, pause)
        else:
            time.sleep(pause)  # select returns at once where nothing is under way

    def _begin_due(self, later: Later) -> None:
        """A request that waits for its next attempt keeps its place: nothing of its partition goes beyond the limit."""
        now = time.monotonic()
        while later and later[0][0] <= now:
            _, request, attempt = later.popleft()
            self._begin(request, attempt)

    def _fill(self, waiting: dict[TopicPartition, Iterator[Request]], busy: dict[TopicPartition, int]) -> None:
        for at in list(waiting):
            while busy[at] < self._endpoint.concurrency:
                request = next(waiting[at], None)
                if request is None:
                    del waiting[at]
                    break
                busy[at] += 1
                self._begin(request, 1)

    def _begin(self, request: Request, attempt: int) -> None:
        handle = self._free.pop() if self._free else self._new_handle()
        handle.begin(request, attempt)
        curl = handle.curl
        if request.uri != handle.uri:
            curl.setopt(pycurl.URL, request.uri)
            handle.uri = request.uri
        headers, body = request.headers, request.body
        curl.setopt(pycurl.HTTPHEADER, headers if body is None or len(body) < _ASKS else [*headers, b"Expect:"])
        if body is not None:
            curl.setopt(pycurl.POSTFIELDS, body)
        self._running[curl] = handle
        handle.pool.under_way += 1
        handle.pool.multi.add_handle(curl)

    def _new_handle(self) -> _Handle:
        """A handle with all that is the same for every request."""
        if self._pools[-1].size == _POOL:
            self._pools.append(_Pool())
        self._pools[-1].size += 1
        curl = pycurl.Curl()
        handle = _Handle(curl, self._pools[-1])
        curl.setopt(pycurl.CUSTOMREQUEST, self._endpoint.method)
        curl.setopt(pycurl.USERAGENT, "Queue-Over-Http")
        curl.setopt(pycurl.PROTOCOLS, pycurl.PROTO_HTTP | pycurl.PROTO_HTTPS)
        curl.setopt(pycurl.FOLLOWLOCATION, 0)
        curl.setopt(pycurl.PROXY, "")  # whatever the environment says
        curl.setopt(pycurl.NOSIGNAL, 1)
        curl.setopt(pycurl.CONNECTTIMEOUT_MS, self._endpoint.connect_timeout_ms)
        curl.setopt(pycurl.SSL_VERIFYPEER, 1)
        curl.setopt(pycurl.SSL_VERIFYHOST, 2)
        curl.setopt(pycurl.OPENSOCKETFUNCTION, self._open_socket)
        curl.setopt(pycurl.WRITEFUNCTION, handle.take)
        for option, value in self._options.items():
            curl.setopt(option, value)
        return handle

    def _open_socket(self, _purpose: int, address: Any) -> Any:
        """A socket to this address, which is what the name of the host resolved to just now."""
        family, kind, protocol, (ip, *_) = address
        ip = ip.decode() if isinstance(ip, bytes) else ip
        if self._allowed.permits(self._host, ip):
            self._close_socket()
            self._socket = socket.socket(family, kind, protocol)  # libcurl has a copy of it
            return self._socket
        self._refused = ip
        return pycurl.SOCKET_BAD

    def _close_socket(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _ended(self, later: Later) -> list[Outcome]:
        """What ended meanwhile, but for what is tried again."""
        outcomes: list[Outcome] = []
        for pool in self._pools:
            left = 1
            while left:
                left, fine, failed = pool.multi.info_read()
                for curl in fine:
                    handle = self._running[curl]
                    outcome = self._outcome(curl, curl.getinfo(pycurl.RESPONSE_CODE), "")
                    if self._is_last(outcome) and (refused := self.refused_credentials(outcome)):
                        self._failure = self._failure or refused
                        continue
                    outcomes += self._final(outcome, later, 0 if outcome.is_success else handle.asked_seconds)
                for curl, code, text in failed:
                    try:
                        outcomes += self._of_failed(self._running[curl], code, text, later)
                    except TidegateError as error:
                        self._failure = self._failure or error
        return outcomes

    def _overdue(self, later: Later) -> list[Outcome]:
        """What took longer than it may, but for what is tried again; libcurl counts time in which nobody asks it."""
        limit = self._endpoint.request_timeout_ms
        late = list(takewhile(lambda each: time.monotonic() - each.begun > limit / 1000, self._running.values()))
        outcomes: list[Outcome] = []
        for handle in late:
            milliseconds = 1000 * (time.monotonic() - handle.begun)
            why = f"Operation timed out after {milliseconds:.0f} milliseconds with {handle.received} bytes received"
            outcomes += self._final(self._outcome(handle.curl, *self._why(handle, why)), later)
        return outcomes

    def _of_failed(self, handle: _Handle, code: int, text: str, later: Later) -> list[Outcome]:
        """What came of a request that got no whole answer. Raises what is no record's fault."""
        if self._refused is not None:
            raise refusal(self._host, self._refused)
        why = self._why(handle, text)
        if _is_garbled(handle.curl, code):
            why = None, "its answer isn't HTTP"
        else:
            self._refuse(handle.curl, code, text)
        outcome = self._outcome(handle.curl, *why)
        if code == pycurl.E_SSL_CONNECT_ERROR and self._is_last(outcome):
            raise BatchFailedError(
                f"{self._endpoint.place} can't be sent to, no encrypted connection comes about: {text}; look at "
                "processing.uri, and at the server's TLS"
            )
        if handle.is_forgiven and code == pycurl.E_OPERATION_TIMEDOUT:  # while it was connecting: that is no attempt
            insort(later, (time.monotonic(), outcome.request, outcome.attempts), key=_due)
            return []
        return self._final(outcome, later)

    def _refuse(self, curl: Any, code: int, text: str) -> None:
        """Raises what is wrong with the connection of type http, the URI or the server's certificate."""
        place = self._endpoint.place
        if code in _LOCAL_TLS:
            raise BatchFailedError(
                f"{place} can't be sent to: libcurl can't use the connection's verify, cert or key (its error {code}); "
                "look at these files"
            )
        if refused := self._why_refused(curl, code, text):
            raise UnauthorizedError(
                f"{place} refuses the connection's certificate, or that it has none: {refused}; "
                "look at cert and key in the extra of the connection that processing.connection names"
            )
        if code == pycurl.E_PEER_FAILED_VERIFICATION:
            raise WrongDefinitionError(
                f"{place} can't be sent to: {text}; have the server show a certificate for processing.uri, or name the "
                "PEM file of its authority as verify in the extra of the connection that processing.connection names"
            )
        if code in _NO_PLACE:
            raise BatchFailedError(f"{place} can't be sent to: {text}")

    def _why_refused(self, curl: Any, code: int, text: str) -> str | None:
        """What the server says against the client's certificate; None if nothing."""
        if said := refusal_in(text):
            return said
        is_silent = code in _BROKEN and not curl.getinfo(pycurl.RESPONSE_CODE)
        if not is_silent or not self._endpoint.uri.lower().startswith("https:"):
            return None
        return self._refusals.ask(curl.getinfo(pycurl.PRIMARY_IP), curl.getinfo(pycurl.PRIMARY_PORT))

    def _why(self, handle: _Handle, text: str) -> tuple[int | None, str]:
        """A status that was heard counts though its answer was too long; anything else that failed has none."""
        if handle.received > _MOST_BYTES:
            return handle.curl.getinfo(pycurl.RESPONSE_CODE), f"its answer was cut off after {_MOST_BYTES:,} bytes"
        return None, text

    def _outcome(self, curl: Any, status: int | None, reason: str) -> Outcome:
        handle = self._running.pop(curl)
        handle.pool.under_way -= 1
        handle.pool.multi.remove_handle(curl)
        self._free.append(handle)
        assert handle.request is not None  # noqa: S101 (it was just under way)
        return Outcome(handle.request, status, reason, handle.first, handle.attempt)

    def _is_last(self, outcome: Outcome) -> bool:
        return outcome.is_success or outcome.attempts == self._endpoint.attempts

    def _final(self, outcome: Outcome, later: Later, asked_seconds: int = 0) -> list[Outcome]:
        """The outcome, or none of a request that is tried again, no sooner than the server asks for."""
        if self._is_last(outcome):
            return [outcome]
        self._failed(outcome)
        due = time.monotonic() + max(self._endpoint.delay_ms / 1000, asked_seconds)
        insort(later, (due, outcome.request, outcome.attempts + 1), key=_due)
        return []


def _due(waits: tuple[float, Request, int]) -> float:
    return waits[0]


def _is_garbled(curl: Any, code: int) -> bool:
    """Whether a request had an answer in no protocol that libcurl knows; without a request it is the address' own."""
    return code == pycurl.E_UNSUPPORTED_PROTOCOL and bool(curl.getinfo(pycurl.REQUEST_SIZE))


def _select(pools: Collection[_Pool], seconds: float) -> None:
    """Until something happens in one of the pools."""
    poll = select.poll()
    told = 0
    for pool in pools:
        reading, writing, _ = pool.multi.fdset()
        told += len(reading) + len(writing)
        for file in reading:
            poll.register(file, select.POLLIN)
        for file in writing:
            poll.register(file, select.POLLOUT)
    is_everything = told >= sum(pool.under_way for pool in pools)
    poll.poll(1000 * (seconds if is_everything else min(seconds, _UNSEEN_SECONDS)))
