"""A launch's directory: its files, and the identity of its driver (docs/contracts.md: who writes what)."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

SPEC: Final = "spec.pb"
IDENTITY: Final = "identity.json"
LOG: Final = "driver.log"
OLDER_LOG: Final = "driver.log.1"
DRIVER_LOGGER: Final = "runtime"
REPLAY_LOGGER: Final = "replay"
"""The logger of our own lines of a replay's log; all others are of Spark, libraries and sinks."""
DRIVER: Final = "driver.json"
STOP: Final = "stop"
KILL: Final = "kill"
"""Beside `STOP` of a launch that shares its process: the scheduler wrote that, to end the launch at once."""
ALLOWED: Final = "refusals-until"
"""Until when sinks may refuse as many rows as they like, in seconds since 1970: the scheduler writes it."""
PAUSED: Final = "paused-sinks"
"""Names of sinks whose rows wait in their logs, a line each: the scheduler writes it."""
HEARTBEAT: Final = "heartbeat.pb"
"""A driver's newest heartbeat, which it writes while the scheduler of its host collects it (ADR 262)."""
COLLECTED: Final = "collected"
"""The scheduler renews it while it collects heartbeats; see `COLLECTED_WITHIN_S`."""
COLLECTED_WITHIN_S: Final = 15.0
"""Age of that file, in seconds, from which on nobody collects: three times the period of both."""
RULES: Final = "alert-rules.json"
"""The `AlertRules` that the driver is to judge, newer than those of its launch, as JSON: the scheduler writes
it.
"""
EXIT: Final = "exit.json"
EXIT_CODE: Final = "exit-code"
KILLED_FOR_MEMORY: Final = "killed-for-memory"
"""Of a driver that SIGKILL ended while the kernel killed for memory where it was: how many processes. Its
wrapper writes it.
"""
PROCESS_EXIT_CODE: Final = "process-exit-code"
"""Of a process that other launches have joined, in the directory that it works in: how it ended. There
`EXIT_CODE` is that of its first launch alone.
"""
MEMBERS: Final = "members"
"""Of a driver's process, in the directory that it works in: links DAGGER.GENERATION to the run directories of
launches that it runs, too (ADR 230).
"""
TEMPORARY: Final = "tmp"
READERS: Final = "source"
REFERENCES: Final = "references"
KEPT: Final = "kept"
"""Of a preview: what its reference tables were last read as; a dagger's stands in its checkpoint."""
CHECKPOINTS: Final = "checkpoints"
"""Of a preview, which goes with it."""
SOCKET: Final = "preview.sock"
"""The socket of a process that previews."""

BOUNDARY: Final = "boundary"
"""Of a driver beside a shadow (ADR 109): the end of the last window that it is to write, in us since 1970.
The scheduler writes it.
"""
SHADOW: Final = "shadow.json"
"""Of a shadow, which writes it: a `daggerspec.shadow.ShadowState`."""
PREDECESSOR_ENDED: Final = "predecessor-ended"
"""Of a shadow: the driver that it began beside is proven dead. The scheduler writes it, empty."""
HANDED: Final = "handed"
"""Of a shadow: it is the dagger's driver from now on, and writes windows that end behind this, in us since
1970. The scheduler writes it.
"""

REPLAY: Final = "replay.pb"
"""Of an attempt of a replay: its request."""
OUTCOMES: Final = "outcomes.json"
"""Of an attempt that gave each record its outcome: how many have each."""
SPARE: Final = "_spare"
"""In place of a dagger: drivers that wait for a launch (ADR 89). No dagger can have this name."""
REPLAYS: Final = "_replay"
"""In place of a dagger: attempts of replays of whatever dagger, by number (ADR 94)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverIdentity:
    """The identity of a driver: the launch that it runs, and the process that leads it.

    The leader writes it to `IDENTITY` before it starts anything else (ADR 28).
    """

    dagger: str
    generation: int
    run_dir: str
    """Directory of this launch, absolute."""
    boot_id: str
    """The boot of its host that it was started in."""
    pid: int
    """Leader of the session that all of the driver's processes belong to."""
    start_ticks: int
    """The start of the leader in clock ticks after boot: a later process with this pid has another."""
    spare: bool = False
    """True if it was started as a spare, before there was this launch."""
    process_dir: str = ""
    """Directory that the process works in, where that is another launch's: this one has joined it."""

    def as_json(self) -> str:
        """Format the text of its file."""
        return json.dumps(asdict(self)) + "\n"

    @classmethod
    def from_json(cls, text: str) -> DriverIdentity:
        """Parse the text of its file; fields that later versions add are ignored. Raises: ValueError."""
        try:
            fields = json.loads(text)
            return cls(
                dagger=str(fields["dagger"]),
                generation=int(fields["generation"]),
                run_dir=str(fields["run_dir"]),
                boot_id=str(fields["boot_id"]),
                pid=int(fields["pid"]),
                start_ticks=int(fields["start_ticks"]),
                spare=fields.get("spare") is True,
                process_dir=str(fields.get("process_dir", "")),
            )
        except (KeyError, TypeError) as error:
            raise ValueError(f"it is no identity of a driver: {text[:200]}") from error
