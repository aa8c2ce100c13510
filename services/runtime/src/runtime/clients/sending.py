"""Send rows in requests, as many at once as their server accepts, until each row is written or refused.

A request that fails for the moment is sent again here for a few seconds: else one failure among many requests
would repeat them all. Rows that are settled stay so when the same batch is sent again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from runtime.clients.bisection import Bisection, DestinationHistory, RefusalCause, Rows, history_of
from runtime.clients.client_pool import ClientPool
from runtime.clients.inflight import InFlightLimit
from runtime.clients.pace import Pace
from runtime.encode.rows import Refusal
from runtime.errors import JobError, TemporaryError

PATIENCE_S = 5.0
"""Time for which no row may be settled, counted from the first answer that settles none."""
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.0
TRIES: Final = 5
"""Failed tries of a row after which it is blamed, where the fault may be the server's or the row's."""
FEW_TRIES: Final = 3
"""Failed tries of a row before it is compared with a request that was accepted."""
_COMPARED_S: Final = (0.1, 0.3, 0.9)
"""Pauses between the tries of such a comparison."""
Request: TypeAlias = Any
"""Request of a client: each client has its own type."""
Answer: TypeAlias = Any


class RequestClient(Protocol):
    """Connections to one server."""

    pace: Pace
    limit: InFlightLimit
    """Requests that may be in flight, as learned from answers."""
    control: Request
    """A request that the server has accepted, to compare others with; None before there is one."""

    async def send(self, request: Request) -> Answer:
        """Send a request, and return its answer of any status.

        Raises: JobError; TemporaryError without answer.
        """


@dataclass(frozen=True, slots=True)
class Verdict:
    """Judgement of an answer on the rows of its request: rows in no field are written."""

    whole: RefusalCause | None = None
    """Cause of a refusal of the whole request, where the answer names no rows."""
    refused: Sequence[Refusal] = ()
    """Rows that can never be written, whatever happens to others."""
    alone: Sequence[tuple[int, RefusalCause]] = ()
    """Rows that are refused one by one; their cause has the error to report if no other row is accepted."""
    again: Sequence[Rows] = ()
    """Rows to send again, by request."""
    why: TemporaryError | None = None
    """Error of a server that did not accept them, where the rows are not at fault: they wait for a moment."""
    is_throttled: bool = False
    """True if the server asks for fewer requests."""
    doubt: RefusalCause | None = None
    """Cause of a refusal if a request that was accepted before is accepted again at the same time; if it
    is not, `why` holds.
    """
    uncompared: RefusalCause | None = None
    """Cause of a refusal if no request was accepted before; None: they wait until one is."""

    @staticmethod
    def of_either(tries: int, rows: Rows, refused: RefusalCause, later: TemporaryError) -> Verdict:
        """Judge an answer that may be the fault of the server or of a row, after this number of tries."""
        uncompared = replace(refused, otherwise=later) if tries >= TRIES else None
        doubt = refused if tries >= FEW_TRIES else None
        return Verdict(again=[rows], why=later, doubt=doubt, uncompared=uncompared)


@dataclass
class RequestSender:
    """Sends the rows of one list, and bisects what is refused."""

    request: Callable[[Rows], Request]
    """Builds the request of these rows."""
    judge: Callable[[Rows, Answer], Verdict]
    """Judges an answer. Raises: JobError where it is about the sink, and no row."""
    parts: Iterable[Rows]
    """The rows by request."""
    ordered: bool = False
    """True if a request waits until the one before it is settled, so that no row is sent behind later ones.
    """
    history: DestinationHistory = field(default_factory=DestinationHistory)
    """History of the destination."""
    may_refuse: bool = False
    """True if all rows may be refused."""
    is_taken: Callable[[Answer], bool] | None = None
    """Tells whether an answer accepts its request; None: requests are not compared with accepted ones."""
    on_refused: Callable[[Rows, RefusalCause], None] = field(default=lambda *_: None)
    """Called with rows that a comparison refused, and the cause."""

    def __post_init__(self) -> None:
        self._rows = Bisection(self.parts, self.history, time.monotonic(), may_refuse=self.may_refuse)
        self._lanes = 0
        self._comparing = asyncio.Lock()
        self._suspects = set[int]()  # rows of compared requests: their halves need no comparison
        self._control: Request = None  # stays when the pool opens another client
        self._trouble: JobError | None = None
        self._not_before = 0.0
        self._idle_since: float | None = None

    async def run(self, client: RequestClient) -> list[Refusal]:
        """Send until all rows are settled, and return the refused ones.

        Raises: JobError; run again, it goes on with the open rows.
        """
        self._trouble = self._idle_since = None
        async with asyncio.TaskGroup() as lanes:
            self._widen(client, lanes)
        if self._trouble is not None:
            self._rows.reopen()
            raise self._trouble
        is_sound = self._rows.is_in_doubt and await self._accepts_control(client)
        can_compare = self.is_taken is not None
        return self._rows.finish(time.monotonic(), is_sound=lambda: is_sound, is_asked_again=can_compare)

    def _widen(self, client: RequestClient, lanes: asyncio.TaskGroup) -> None:
        most = 1 if self.ordered else client.limit.requests
        for _ in range(min(most - self._lanes, self._rows.open)):
            self._lanes += 1
            lanes.create_task(self._lane(client, lanes))

    async def _lane(self, client: RequestClient, lanes: asyncio.TaskGroup) -> None:
        """Send one request after the other while the limit has room for this lane."""
        pause = _FIRST_PAUSE_S
        while self._trouble is None and self._lanes <= client.limit.requests:
            if (left := self._not_before - time.monotonic()) > 0:
                await asyncio.sleep(left)
                continue
            async with self._comparing:  # a comparison has the server for itself
                rows = self._rows.next(time.monotonic())
            if rows is None:
                break
            verdict = await self._send_and_judge(client, rows)
            if verdict.doubt is not None:
                verdict = await self._compare(client, rows, verdict)
            self._settle(rows, verdict)
            if self._trouble is not None:
                break
            if verdict.why is None or sum(map(len, verdict.again)) < len(rows):
                self._idle_since, pause = None, _FIRST_PAUSE_S
            if verdict.why is None:
                client.limit = client.limit.grow()
                self._widen(client, lanes)
            elif self._may_retry(client, verdict, verdict.why):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
        self._lanes -= 1

    def _settle(self, rows: Rows, verdict: Verdict) -> None:
        now = time.monotonic()
        if verdict.whole is not None:
            self._rows.reject(rows, verdict.whole, now)
        elif verdict.refused or verdict.alone or verdict.again:
            alone = [
                (refusal.row, RefusalCause(refusal.reason, refusal.detail)) for refusal in verdict.refused
            ]
            alone += verdict.alone
            self._rows.settle_each(rows, alone, verdict.again, now)
        else:
            self._rows.accept(rows)

    async def _send_and_judge(self, client: RequestClient, rows: Rows) -> Verdict:
        try:
            if (left := client.pace.reserve(len(rows))) > 0:
                await asyncio.sleep(left)
            request = self.request(rows)
            answer = await client.send(request)
            if self.is_taken is not None and self.is_taken(answer):
                client.control = self._control = request
            return self.judge(rows, answer)
        except TemporaryError as silence:
            return Verdict(again=[rows], why=silence, is_throttled=True)
        except JobError as error:
            self._trouble = self._trouble or error
            return Verdict(again=[rows])

    async def _compare(self, client: RequestClient, rows: Rows, verdict: Verdict) -> Verdict:
        """Compare suspect rows with an accepted request, and return the verdict on them.

        The rows are at fault if they fail while nothing else is sent, and directly behind them a request that
        was accepted before is accepted again.
        """
        doubt = verdict.doubt
        if doubt is None:
            return verdict
        if self._accepted_request(client) is None:
            return verdict if verdict.uncompared is None else Verdict(whole=verdict.uncompared)
        if self._suspects.issuperset(rows):
            return Verdict(whole=replace(doubt, otherwise=verdict.why))
        async with self._comparing:
            for pause in _COMPARED_S:
                await asyncio.sleep(pause)
                verdict = await self._send_and_judge(client, rows)
                if verdict.doubt is None:
                    return verdict
            if not await self._accepts_control(client):
                return verdict
        self.on_refused(rows, doubt)
        if len(rows) > 1:
            self._suspects.update(rows)
        return Verdict(whole=doubt)

    async def _accepts_control(self, client: RequestClient) -> bool:
        """Send an accepted request once more, and tell whether the server accepts it again."""
        control = self._accepted_request(client)
        if control is None or self.is_taken is None:
            return False
        try:
            if (left := client.pace.reserve(1)) > 0:
                await asyncio.sleep(left)
            return self.is_taken(await client.send(control))
        except JobError:
            return False

    def _accepted_request(self, client: RequestClient) -> Request:
        """Return a request that the server has accepted; None before there is one."""
        return client.control if self._control is None else self._control

    def _may_retry(self, client: RequestClient, verdict: Verdict, why: TemporaryError) -> bool:
        """Tell whether another try soon is worthwhile; if not, all lanes stop with the trouble."""
        now = time.monotonic()
        if verdict.is_throttled:
            client.limit = client.limit.shrink(now)
        after = now + (why.retry_after or 0.0)
        if self._idle_since is None:
            self._idle_since = now
        if max(now, after) - self._idle_since > PATIENCE_S:
            self._trouble = self._trouble or why
            return False
        self._not_before = max(self._not_before, after)
        return True


class BatchRequests(Protocol):
    """Encodes the rows of a batch into requests."""

    @property
    def refusals(self) -> list[Refusal]:
        """Refusals of rows that no request can carry."""

    @property
    def parts(self) -> Sequence[Rows]:
        """The other rows, by request."""

    def request(self, rows: Rows) -> Request:
        """Build the request of these rows."""

    def judge(self, rows: Rows, answer: Answer) -> Verdict:
        """Judge the answer to a request. Raises: JobError where it is about the sink, and no row."""


@runtime_checkable
class ComparableRequests(BatchRequests, Protocol):
    """Requests that may be sent twice: by an id the server recognises what it has."""

    def is_taken(self, answer: Answer) -> bool:
        """Tell whether an answer accepts its request."""


@dataclass
class Batches:
    """Sends the batches of one partition to a server."""

    encode: Callable[[pa.RecordBatch], BatchRequests]
    pool: ClientPool[Any, Any]
    """Clients of this process by server."""
    server: Hashable
    """Destination of the rows: a key of `pool`."""
    ordered: bool = False
    """True if requests are sent one after the other, in the order of the rows."""
    may_refuse: bool = False
    """True if all rows may be refused."""

    def __post_init__(self) -> None:
        self._rows: pa.RecordBatch | None = None
        self._unsendable: list[Refusal] = []
        self._sender: RequestSender

    def send(self, batch: pa.RecordBatch) -> list[Refusal]:
        """Send a batch, and return the refused rows once all others are written.

        Raises: JobError; called again with the same batch, it goes on with the open rows.
        """
        if self._rows is not batch:
            requests = self.encode(batch)
            self._sender = self._make_sender(requests)
            self._rows, self._unsendable = batch, requests.refusals
        return [*self._unsendable, *self.pool.run(self.server, self._sender.run)]

    def _make_sender(self, requests: BatchRequests) -> RequestSender:
        """Build the sender of these requests."""
        return RequestSender(
            requests.request,
            requests.judge,
            requests.parts,
            ordered=self.ordered,
            history=history_of(self.server),
            may_refuse=self.may_refuse,
            is_taken=requests.is_taken if isinstance(requests, ComparableRequests) else None,
        )


def parts(count: int, refused: Sequence[Refusal], at_once: int) -> list[Rows]:
    """Split row numbers 0 … count-1, without refused ones, into parts of at most `at_once` rows."""
    never = {refusal.row for refusal in refused}
    left = [row for row in range(count) if row not in never]
    return [left[start : start + at_once] for start in range(0, len(left), at_once)]
