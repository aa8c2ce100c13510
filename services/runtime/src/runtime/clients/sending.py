"""Rows in requests, as many at once as their server takes, until each row is settled.

A request that is not taken just now is sent again here for a few seconds: of many at once some may fail, and
all of them would have to be repeated. What is settled stays so when somebody asks again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from runtime.clients.bisection import Bisection, Learnt, Refused, Rows, learnt_of
from runtime.clients.inflight import InFlightLimit
from runtime.clients.kept import Kept
from runtime.clients.pace import Pace
from runtime.encode.rows import Refusal
from runtime.errors import JobError, TemporaryError

PATIENCE_S = 5.0
"""For so long no row may be settled, from the first answer that settles none."""
_FIRST_PAUSE_S: Final = 0.1
_LONGEST_PAUSE_S: Final = 1.0
TRIES: Final = 5
"""So often a row may not be taken by what may be the server's fault or the row's."""
FEW_TRIES: Final = 3
"""So often, before it is compared with a row that was taken."""
_COMPARED_S: Final = (0.1, 0.3, 0.9)
"""Pauses before a row is compared with one that was taken."""
Request: TypeAlias = Any
"""What a client sends: each has its own."""
Answer: TypeAlias = Any


class Client(Protocol):
    """Connections to one server."""

    pace: Pace
    limit: InFlightLimit
    """Requests that may be under way, as far as is known."""
    control: Request
    """A request that its server has taken; None before there is one, and where none is kept."""

    async def send(self, request: Request) -> Answer:
        """One request, and its answer, whatever it says. Raises: JobError; TemporaryError for silence."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What an answer means for the rows of its request: those that nothing is said of are written."""

    whole: Refused | None = None
    """Why all of it is refused, for the sake of nobody knows which rows."""
    refused: Sequence[Refusal] = ()
    """Those that can never be written, whatever becomes of others."""
    alone: Sequence[tuple[int, Refused]] = ()
    """Those that are refused each for itself, and what that is where no other row passes."""
    again: Sequence[Rows] = ()
    """Those to be sent again, in these requests."""
    why: TemporaryError | None = None
    """Why the server did not take them, where it was not for their sake: they wait for a moment."""
    is_throttled: bool = False
    """Whether it asks for fewer requests."""
    doubt: Refused | None = None
    """Why they are refused, if a request that was taken before is taken once more at the same time; if it is
    not, `why` holds."""
    uncompared: Refused | None = None
    """The same where no request was taken before; None: they wait until one is."""

    @staticmethod
    def of_either(tries: int, rows: Rows, refused: Refused, later: TemporaryError) -> Verdict:
        """What an answer means, the last of so many, that may be the server's fault or that of a row."""
        uncompared = replace(refused, otherwise=later) if tries >= TRIES else None
        doubt = refused if tries >= FEW_TRIES else None
        return Verdict(again=[rows], why=later, doubt=doubt, uncompared=uncompared)


@dataclass
class Sending:
    """One list of rows on its way."""

    request: Callable[[Rows], Request]
    """What carries these rows."""
    judge: Callable[[Rows, Answer], Verdict]
    """What an answer means. Raises: JobError for what is about no row, but about the sink."""
    parts: Iterable[Rows]
    """The rows, as requests are to have them."""
    ordered: bool = False
    """Whether the next request waits until the one before it is settled: by then its rows were taken or
    refused, and are never sent behind others."""
    learnt: Learnt = field(default_factory=Learnt)
    """What is known of where they go."""
    may_refuse: bool = False
    """Whether all of them may be refused."""
    is_taken: Callable[[Answer], bool] | None = None
    """Whether an answer says that its request was taken; None: no request is kept to compare others with."""
    on_refused: Callable[[Rows, Refused], None] = field(default=lambda *_: None)
    """Is told of rows that were refused by a comparison, and why."""

    def __post_init__(self) -> None:
        self._rows = Bisection(self.parts, self.learnt, time.monotonic(), may_refuse=self.may_refuse)
        self._lanes = 0
        self._comparing = asyncio.Lock()
        self._suspects = set[int]()  # of requests that were compared: of their halves what passes tells
        self._control: Request = None  # of these rows, whichever client sends the others
        self._trouble: JobError | None = None
        self._not_before = 0.0
        self._idle_since: float | None = None

    async def run(self, client: Client) -> list[Refusal]:
        """Send until all rows are settled; those that are refused.

        Raises: JobError; asked again, it goes on with what is open.
        """
        self._trouble = self._idle_since = None
        async with asyncio.TaskGroup() as lanes:
            self._widen(client, lanes)
        if self._trouble is not None:
            self._rows.reopen()
            raise self._trouble
        is_sound = self._rows.is_in_doubt and await self._takes_control(client)
        can_compare = self.is_taken is not None
        return self._rows.settled(time.monotonic(), is_sound=lambda: is_sound, is_asked_again=can_compare)

    def _widen(self, client: Client, lanes: asyncio.TaskGroup) -> None:
        most = 1 if self.ordered else client.limit.requests
        for _ in range(min(most - self._lanes, self._rows.open)):
            self._lanes += 1
            lanes.create_task(self._lane(client, lanes))

    async def _lane(self, client: Client, lanes: asyncio.TaskGroup) -> None:
        """One request after the other, as long as the limit has room for it."""
        pause = _FIRST_PAUSE_S
        while self._trouble is None and self._lanes <= client.limit.requests:
            if (left := self._not_before - time.monotonic()) > 0:
                await asyncio.sleep(left)
                continue
            async with self._comparing:  # what is compared goes out alone
                rows = self._rows.next(time.monotonic())
            if rows is None:
                break
            verdict = await self._verdict(client, rows)
            if verdict.doubt is not None:
                verdict = await self._compared(client, rows, verdict)
            self._settle(rows, verdict)
            if self._trouble is not None:
                break
            if verdict.why is None or sum(map(len, verdict.again)) < len(rows):
                self._idle_since, pause = None, _FIRST_PAUSE_S
            if verdict.why is None:
                client.limit = client.limit.taken()
                self._widen(client, lanes)
            elif self._is_waited_for(client, verdict, verdict.why):
                await asyncio.sleep(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_S)
        self._lanes -= 1

    def _settle(self, rows: Rows, verdict: Verdict) -> None:
        now = time.monotonic()
        if verdict.whole is not None:
            self._rows.refused(rows, verdict.whole, now)
        elif verdict.refused or verdict.alone or verdict.again:
            alone = [(refusal.row, Refused(refusal.reason, refusal.detail)) for refusal in verdict.refused]
            alone += verdict.alone
            self._rows.answered(rows, alone, verdict.again, now)
        else:
            self._rows.taken(rows)

    async def _verdict(self, client: Client, rows: Rows) -> Verdict:
        try:
            if (left := client.pace.reserved(len(rows))) > 0:
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

    async def _compared(self, client: Client, rows: Rows, verdict: Verdict) -> Verdict:
        """Whether rows are refused for their own sake: nothing else goes out for a while and they are, and
        directly behind them a request that was taken before is taken once more.
        """
        doubt = verdict.doubt
        if doubt is None:
            return verdict
        if self._taken_before(client) is None:
            return verdict if verdict.uncompared is None else Verdict(whole=verdict.uncompared)
        if self._suspects.issuperset(rows):
            return Verdict(whole=replace(doubt, otherwise=verdict.why))
        async with self._comparing:
            for pause in _COMPARED_S:
                await asyncio.sleep(pause)
                verdict = await self._verdict(client, rows)
                if verdict.doubt is None:
                    return verdict
            if not await self._takes_control(client):
                return verdict
        self.on_refused(rows, doubt)
        if len(rows) > 1:
            self._suspects.update(rows)
        return Verdict(whole=doubt)

    async def _takes_control(self, client: Client) -> bool:
        """Whether the server takes once more what it has taken before."""
        control = self._taken_before(client)
        if control is None or self.is_taken is None:
            return False
        try:
            if (left := client.pace.reserved(1)) > 0:
                await asyncio.sleep(left)
            return self.is_taken(await client.send(control))
        except JobError:
            return False

    def _taken_before(self, client: Client) -> Request:
        """A request that the server has taken; None before there is one."""
        return client.control if self._control is None else self._control

    def _is_waited_for(self, client: Client, verdict: Verdict, why: TemporaryError) -> bool:
        """Whether it is worth another try soon; else all stop."""
        now = time.monotonic()
        if verdict.is_throttled:
            client.limit = client.limit.throttled(now)
        after = now + (why.retry_after or 0.0)
        if self._idle_since is None:
            self._idle_since = now
        if max(now, after) - self._idle_since > PATIENCE_S:
            self._trouble = self._trouble or why
            return False
        self._not_before = max(self._not_before, after)
        return True


class Requests(Protocol):
    """The rows of a batch in requests."""

    @property
    def refusals(self) -> list[Refusal]:
        """Of rows that no request can carry."""

    @property
    def parts(self) -> Sequence[Rows]:
        """The others, as requests are to have them."""

    def request(self, rows: Rows) -> Request:
        """The request that carries these rows."""

    def judge(self, rows: Rows, answer: Answer) -> Verdict:
        """What its answer means. Raises: JobError for what is about no row, but about the sink."""


@runtime_checkable
class Comparable(Requests, Protocol):
    """Requests one of which may be made once more: by an id the server knows that it has it."""

    def is_taken(self, answer: Answer) -> bool:
        """Whether an answer says that its request was taken."""


@dataclass
class Batches:
    """The batches of one partition on their way to a server."""

    encode: Callable[[pa.RecordBatch], Requests]
    kept: Kept[Any, Any]
    """The clients of this process."""
    server: Hashable
    """Where the rows go."""
    ordered: bool = False
    """Whether they go there one request after the other, in the order of the rows."""
    may_refuse: bool = False
    """Whether all of them may be refused."""

    def __post_init__(self) -> None:
        self._rows: pa.RecordBatch | None = None
        self._unsendable: list[Refusal] = []
        self._sending: Sending

    def sent(self, batch: pa.RecordBatch) -> list[Refusal]:
        """The rows that are refused, when all others were taken. Asked again, it goes on with what is open.

        Raises: JobError.
        """
        if self._rows is not batch:
            made = self.encode(batch)
            self._sending = self._sent_as(made)
            self._rows, self._unsendable = batch, made.refusals
        return [*self._unsendable, *self.kept.run(self.server, self._sending.run)]

    def _sent_as(self, made: Requests) -> Sending:
        """How these requests are on their way."""
        return Sending(
            made.request,
            made.judge,
            made.parts,
            ordered=self.ordered,
            learnt=learnt_of(self.server),
            may_refuse=self.may_refuse,
            is_taken=made.is_taken if isinstance(made, Comparable) else None,
        )


def parts(count: int, refused: Sequence[Refusal], at_once: int) -> list[Rows]:
    """So many rows as requests are to have them, but for those that none can carry."""
    never = {refusal.row for refusal in refused}
    left = [row for row in range(count) if row not in never]
    return [left[start : start + at_once] for start in range(0, len(left), at_once)]
