"""Rate limits of one principal at a gateway: token buckets and open streams. Pure: time is an argument.

Principals to whom everything is allowed whatever the log says (the token file, and a gateway without
authentication) are not counted: recovery never waits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

from access.decision import LOOKS
from access.methods import METHODS
from access.principal import Principal

_REQUESTS_AT_ONCE_S: Final = 10.0
_WRITES_AT_ONCE_S: Final = 30.0
"""Sizes of full buckets, in seconds of their rate: a principal that was silent may call as often at once."""
_WRITES_SHARE: Final = 0.1
"""Share of a principal's calls that may write: each write costs the log a record for ever."""
_STREAM_AGAIN_S: Final = 1.0
_MOST_BUCKETS: Final = 1_000
"""Above so many buckets, those that are full again are forgotten."""


@dataclass(frozen=True, slots=True)
class CallLimits:
    """Calls a second and open streams that each principal may have."""

    requests_per_second: float = 100
    writes_per_second: float = 10
    streams: int = 100
    """Open at once."""
    streams_without_role: int = 10
    """Open at once, of a principal without a role in any team."""

    @classmethod
    def of_rate(cls, requests_per_second: float) -> Self:
        """Return the limits of a gateway that takes so many calls a second of each principal."""
        return cls(requests_per_second, writes_per_second=_WRITES_SHARE * requests_per_second)


@dataclass(frozen=True, slots=True)
class ExceededLimit:
    """A limit that a call would exceed."""

    limit: str
    """Its name in `CallLimits`."""
    most: float
    wait_s: float
    """Seconds until the call may be made again."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """A token bucket: what a principal has left of one limit."""

    rate: float
    """Tokens that are added in a second."""
    size: float
    """The most tokens."""
    tokens: float
    """At `as_of`."""
    as_of: float
    """Seconds of any monotonic clock."""

    def then(self, now: float) -> Bucket:
        """Return the bucket at a later time, with the tokens added since."""
        tokens = min(self.size, self.tokens + max(0.0, now - self.as_of) * self.rate)
        return Bucket(self.rate, self.size, tokens, max(self.as_of, now))

    @property
    def wait_s(self) -> float:
        """Seconds until a token can be taken."""
        return max(0.0, (1 - self.tokens) / self.rate)

    def less_one(self) -> Bucket:
        """Return the bucket with one token taken."""
        return Bucket(self.rate, self.size, self.tokens - 1, self.as_of)


class Meter:
    """Counts the calls and open streams of each principal at one gateway."""

    def __init__(self, limits: CallLimits) -> None:
        self._limits = limits
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._streams: dict[str, int] = {}

    def asks(self, who: Principal, method: str, now: float) -> ExceededLimit | None:
        """Count a call; or return the limit that it would exceed, and count nothing."""
        if who.administrator:
            return None
        counted = ["requests_per_second"]
        if METHODS[method].action not in LOOKS:
            counted.append("writes_per_second")
        buckets = {name: self._bucket(who.name, name, now) for name in counted}
        waits = [(bucket.wait_s, name) for name, bucket in buckets.items()]
        wait_s, name = max(waits)
        if wait_s > 0:
            return ExceededLimit(name, getattr(self._limits, name), wait_s)
        self._forget(now)
        self._buckets |= {(who.name, name): bucket.less_one() for name, bucket in buckets.items()}
        return None

    def opens(self, who: Principal, *, has_role: bool) -> ExceededLimit | None:
        """Count a stream until it `closes`; or return the limit that is reached, and count nothing."""
        opened = self._streams.get(who.name, 0)
        limit = "streams" if has_role else "streams_without_role"
        most: int = getattr(self._limits, limit)
        if opened >= most and not who.administrator:
            return ExceededLimit(limit, most, _STREAM_AGAIN_S)
        self._streams[who.name] = opened + 1
        return None

    def closes(self, who: Principal) -> None:
        """Count a stream no more that `opens` has counted."""
        self._streams[who.name] -= 1
        if not self._streams[who.name]:
            del self._streams[who.name]

    @property
    def remembered(self) -> int:
        """Number of buckets and counts in memory."""
        return len(self._buckets) + len(self._streams)

    def _bucket(self, who: str, name: str, now: float) -> Bucket:
        bucket = self._buckets.get((who, name))
        if bucket is not None:
            return bucket.then(now)
        rate = getattr(self._limits, name)
        at_once_s = _REQUESTS_AT_ONCE_S if name == "requests_per_second" else _WRITES_AT_ONCE_S
        size = max(1.0, rate * at_once_s)
        return Bucket(rate, size, size, now)

    def _forget(self, now: float) -> None:
        """Drop buckets that are full again, once there are many: a full bucket is as good as none."""
        if len(self._buckets) > _MOST_BUCKETS:
            then = {key: bucket.then(now) for key, bucket in self._buckets.items()}
            self._buckets = {key: bucket for key, bucket in then.items() if bucket.tokens < bucket.size}
