"""How much one principal may ask of a gateway: token buckets and open streams. Pure: time is an argument.

Whom everything is allowed whatever the log says, the names of the token file and a gateway that asks nobody,
is not counted: recovery never waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from access.decision import LOOKS
from access.methods import METHODS
from access.principal import Principal

_REQUESTS_AT_ONCE_S: Final = 10.0
_WRITES_AT_ONCE_S: Final = 30.0
"""Who was silent for so long may ask for as much at once."""
_WRITES_SHARE: Final = 0.1
"""Of the calls that a principal may make so many may write: each costs the log a record for ever."""
_STREAM_AGAIN_S: Final = 1.0
_KEPT: Final = 1_000
"""Principals that are remembered before those are forgotten whose buckets are full again."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What each principal may."""

    requests_per_second: float = 100
    writes_per_second: float = 10
    streams: int = 100
    """Open at once."""
    streams_without_role: int = 10
    """The same, of who has no role in any team."""

    @classmethod
    def of_rate(cls, requests_per_second: float) -> Self:
        """Return the limits of a gateway that takes so many calls a second of each principal."""
        return cls(requests_per_second, writes_per_second=_WRITES_SHARE * requests_per_second)


@dataclass(frozen=True, slots=True)
class Exceeded:
    """A limit that a call would exceed."""

    limit: str
    """Its name in `Limits`."""
    most: float
    wait_s: float
    """After so many seconds it may be asked again."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """What a principal has left of one limit."""

    rate: float
    """What comes back in a second."""
    size: float
    """The most that there is."""
    held: float
    as_of: float
    """When that was, in seconds of any clock that goes on."""

    def then(self, now: float) -> Bucket:
        """The same at a later time."""
        held = min(self.size, self.held + max(0.0, now - self.as_of) * self.rate)
        return Bucket(self.rate, self.size, held, max(self.as_of, now))

    @property
    def wait_s(self) -> float:
        """Seconds until one can be taken."""
        return max(0.0, (1 - self.held) / self.rate)

    def less_one(self) -> Bucket:
        """What is left when one is taken."""
        return Bucket(self.rate, self.size, self.held - 1, self.as_of)


class Meter:
    """Counts what principals ask of one gateway."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._streams: dict[str, int] = {}

    def asks(self, who: Principal, method: str, now: float) -> Exceeded | None:
        """Count a call; or answer what it would exceed, and count nothing."""
        if who.administrator:
            return None
        counted = ["requests_per_second"]
        if METHODS[method].action not in LOOKS:
            counted.append("writes_per_second")
        buckets = {name: self._bucket(who.name, name, now) for name in counted}
        waits = [(bucket.wait_s, name) for name, bucket in buckets.items()]
        wait_s, name = max(waits)
        if wait_s > 0:
            return Exceeded(name, getattr(self._limits, name), wait_s)
        self._forget(now)
        self._buckets |= {(who.name, name): bucket.less_one() for name, bucket in buckets.items()}
        return None

    def opens(self, who: Principal, *, has_role: bool) -> Exceeded | None:
        """Count a stream until it `closes`; or answer that there are as many as may be."""
        opened = self._streams.get(who.name, 0)
        limit = "streams" if has_role else "streams_without_role"
        most: int = getattr(self._limits, limit)
        if opened >= most and not who.administrator:
            return Exceeded(limit, most, _STREAM_AGAIN_S)
        self._streams[who.name] = opened + 1
        return None

    def closes(self, who: Principal) -> None:
        """A stream that was counted is over."""
        self._streams[who.name] -= 1
        if not self._streams[who.name]:
            del self._streams[who.name]

    @property
    def remembered(self) -> int:
        """How many buckets and counts are held."""
        return len(self._buckets) + len(self._streams)

    def _bucket(self, who: str, name: str, now: float) -> Bucket:
        known = self._buckets.get((who, name))
        if known is not None:
            return known.then(now)
        rate = getattr(self._limits, name)
        at_once_s = _REQUESTS_AT_ONCE_S if name == "requests_per_second" else _WRITES_AT_ONCE_S
        size = max(1.0, rate * at_once_s)
        return Bucket(rate, size, size, now)

    def _forget(self, now: float) -> None:
        """A bucket that is full again is as good as none."""
        if len(self._buckets) > _KEPT:
            then = {key: bucket.then(now) for key, bucket in self._buckets.items()}
            self._buckets = {key: bucket for key, bucket in then.items() if bucket.held < bucket.size}
