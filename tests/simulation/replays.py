"""What daggers set aside, and the attempts to replay it: they die at each step, as their hosts do.

Which records are meant is the runtime's own fold, and so is the lease; only where they are kept is simulated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from daggers.v1 import events_pb2, telemetry_pb2
from google.protobuf.message import Message
from tests.simulation.witness import Violation
from tests.simulation.world import World

from daggerspec import exits
from daggerspec.rundir import DriverIdentity
from daggerspec.setaside import AWAY
from runtime.errors import FencedError, JobError
from runtime.replay.history import History, QuarantineEntry, name_of
from runtime.state.lease import Lease

if TYPE_CHECKING:
    from tests.simulation.hosts import Host, SimulatedStore

STEP_S: Final = 0.7
CHUNK: Final = 2
_REPLAYED: Final = telemetry_pb2.QUARANTINE_OUTCOME_REPLAYED
_FAILED: Final = telemetry_pb2.QUARANTINE_OUTCOME_FAILED_AGAIN
_LATE: Final = telemetry_pb2.QUARANTINE_OUTCOME_LATE
CLOSED: Final = "MENDED_TOO_LATE"
"""The reason of a record whose windows are closed by the time that it can be read."""
DB: Final = "db"
"""The sink of all daggers. Its rows are to be replayed by themselves."""


class Quarantine:
    """`daggers.quarantine` in one partition, and the sink whose rows are there: it upserts."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.records: list[tuple[str, Message]] = []
        """Dagger and message, by offset."""
        self.rows: dict[str, set[str]] = {}
        """The rows that were replayed into the sink, by dagger."""
        self.away = False
        """Whether the sink does not answer."""
        self.skipped: dict[str, tuple[str, int, int]] = {}
        """Of the rows that it did not take: dagger, launch, and number of the outage, by id."""
        self._wrote: dict[str, int] = {}
        """The newest attempt that wrote, by dagger."""
        self._set_aside: dict[str, list[Message]] = {}

    def set_aside(self, dagger: str, generation: int) -> None:
        """A driver sets a row aside; now and then one that is there already: it has repeated a batch."""
        before = self._set_aside.setdefault(dagger, [])
        if before and self._world.random.random() < 0.2:
            self.records.append((dagger, self._world.random.choice(before)))
            return
        record = telemetry_pb2.Quarantined(
            dagger=dagger, generation=generation, stage="sink", sink=DB, id=self._world.id()
        )
        record.reason = self._world.random.choice(["CONSTRAINT", "TOO_LARGE", "MALFORMED", CLOSED])
        if record.reason in ("MALFORMED", CLOSED):  # it never was a row: its query has to be computed
            record.stage, record.sink = "decode", ""
        before.append(record)
        self.records.append((dagger, record))

    def skip(self, dagger: str, generation: int, number: int) -> None:
        """A driver sets a row aside in an outage of the sink, the one of this number in its launch."""
        record = telemetry_pb2.Quarantined(
            dagger=dagger, generation=generation, stage="sink", sink=DB, id=self._world.id(), reason=AWAY
        )
        self.skipped[record.id] = dagger, generation, number
        self.records.append((dagger, record))

    def leave(self, seconds: float) -> None:
        """The sink does not answer for so long."""
        self.away = True
        self._world.later(seconds, setattr, self, "away", False)

    def history(self, asked: events_pb2.QuarantineReplayRequested, sequence: int, created: int) -> History:
        """What a process reads of a dagger."""
        history = History(asked, sequence, created)
        for offset, (dagger, message) in enumerate(self.records):
            if dagger == asked.name:
                value = message.SerializeToString(deterministic=True)
                history.apply((0, offset), message.DESCRIPTOR.full_name, value, "", 0)
        return history

    def write(
        self, asked: events_pb2.QuarantineReplayRequested, number: int, chunk: Sequence[QuarantineEntry]
    ) -> list[telemetry_pb2.QuarantineResolved]:
        """An attempt writes rows; what became of each. Raises: Violation."""
        dagger = asked.name
        if (newest := self._wrote.get(dagger, 0)) > number:
            raise Violation(f"attempt {number} of {dagger}'s replay writes after attempt {newest} did")
        self._wrote[dagger] = number
        outcomes = []
        for kept in chunk:
            # Whether the sink takes a row is the row's own, so that another attempt hears the same.
            if kept.reason == "TOO_LARGE":
                outcomes.append(
                    telemetry_pb2.QuarantineResolved(id=kept.id, outcome=_FAILED, attempt=kept.attempts + 1)
                )
            elif kept.stage != "sink" and not asked.computes:
                raise Violation(f"attempt {number} of {dagger}'s replay has no Spark for {kept.id}")
            elif kept.reason == CLOSED and not asked.recompute:
                outcomes.append(telemetry_pb2.QuarantineResolved(id=kept.id, outcome=_LATE))
            else:
                self.rows.setdefault(dagger, set()).add(kept.id)
                outcomes.append(telemetry_pb2.QuarantineResolved(id=kept.id, outcome=_REPLAYED))
        return outcomes

    def wrong(self, replay: events_pb2.QuarantineReplayRequested, meant: set[str]) -> str:
        """How what became of the records of a finished replay differs from what was asked; else empty."""
        said = {
            message.id
            for dagger, message in self.records
            if isinstance(message, telemetry_pb2.QuarantineResolved)
            and dagger == replay.name
            and message.replay_id == replay.replay_id
        }
        if said == meant:
            return ""
        told = f"{len(meant - said)} untold, {len(said - meant)} unasked"
        return f"replay {replay.replay_id} of {replay.name}: {told}"

    def meant(self, asked: events_pb2.QuarantineReplayRequested, created: int, sequence: int) -> set[str]:
        """What a request means, in other words than the code's: what was open when it was made, and was not
        replayed by one before it, which may have gone on until the request was taken.
        """
        is_open: dict[str, bool] = {}
        reasons: dict[str, str] = {}
        for dagger, message in self.records[: asked.up_to[0]]:
            if dagger != asked.name:
                continue
            if isinstance(message, telemetry_pb2.Quarantined) and message.generation > created:
                is_open.setdefault(message.id, True)
                reasons[message.id] = message.reason
        for dagger, message in self.records:
            if dagger != asked.name or not isinstance(message, telemetry_pb2.QuarantineResolved):
                continue
            if message.outcome == _REPLAYED and message.sequence < sequence:
                is_open[message.id] = False
        wanted = set(asked.selection.reasons)
        return {id_ for id_, still in is_open.items() if still and (not wanted or reasons[id_] in wanted)}


class SimulatedAttempt:
    """An attempt of a replay: takes its lease, then writes and tells, chunk by chunk."""

    def __init__(
        self,
        world: World,
        quarantine: Quarantine,
        host: Host,
        store: SimulatedStore,
        identity: DriverIdentity,
        history: History,
        asked: events_pb2.QuarantineReplayRequested,
        sequence: int,
    ) -> None:
        self.identity, self.asked = identity, asked
        self.alive = True
        self.code: int | None = None
        self.outcomes: Counter[str] = Counter()
        self._world, self._quarantine, self._host = world, quarantine, host
        self._history, self._sequence = history, sequence
        self._lease = Lease(store, identity.generation, world.loop.time)
        meant = history.selected
        self._left = [meant[start : start + CHUNK] for start in range(0, len(meant), CHUNK)]
        self._untold: list[telemetry_pb2.QuarantineResolved] = []
        self._is_taken = False
        ids = {each.id for each in meant}
        self.outcomes.update(name_of(each) for id_, each in history.outcomes.items() if id_ in ids)
        world.later(world.random.uniform(0.2, 2), self._step)

    def end(self, code: int | None) -> None:
        """Exit, or be killed."""
        if self.alive:
            self.alive, self.code = False, code

    def _step(self) -> None:
        if not self.alive:
            return
        self._world.later(STEP_S, self._step)
        if self._host.cut:
            return
        if self._world.chance(0.08, "replay died"):
            self.end(self._world.random.choice([-9, 69, 70, None]))
            return
        try:
            if not self._is_taken:
                self._lease.take()
                self._is_taken = True
            elif self._lease.check():  # nothing is written or told before it is sure
                self._work()
        except FencedError:
            self.end(exits.FENCED)
        except JobError:
            self.end(exits.EXTERNAL)

    def _work(self) -> None:
        """Write a chunk, or tell what became of the one that was written: never both in one step."""
        if self._quarantine.away:
            return
        if self._untold:
            for outcome in self._untold:
                outcome.replay_id, outcome.sequence = self.asked.replay_id, self._sequence
                if outcome.id not in self._history.outcomes:
                    self._quarantine.records.append((self.asked.name, outcome))
                    self.outcomes[name_of(outcome.outcome)] += 1
            self._untold = []
        elif self._left:
            chunk = self._left.pop(0)
            if any(each.id not in self._history.outcomes for each in chunk):
                self._untold = self._quarantine.write(self.asked, self.identity.generation, chunk)
        else:
            self.end(0)
