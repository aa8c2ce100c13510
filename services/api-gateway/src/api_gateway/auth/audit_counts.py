"""Limit the audit records of refusals, so that a flood of calls does not flood the audit. Pure: time is an
argument.

Of each caller and kind of record the first refusals of a minute are written whole (`WHOLE`); the rest of the
minute becomes one record with their number. Callers without a valid token are told apart by address, `PEERS`
addresses a minute, and principals up to `PRINCIPALS`; those beyond are counted together as `OTHERS`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, TypeAlias

from daggers.v1 import audit_pb2

from access.audits import CHECK, REFUSED, UNAUTHENTICATED, Kind
from chassis.connections import network, peer_of

WHOLE: Final[dict[Kind.ValueType, int]] = {REFUSED: 30, CHECK: 3, UNAUTHENTICATED: 1}
"""Records per caller, kind and minute that are written whole. Kinds that are missing here have no limit."""
PEERS: Final = 100
"""Number of addresses per minute by which calls without a valid token are told apart."""
PRINCIPALS: Final = 1_000
"""Number of principals per minute by which the refusals of one kind are told apart."""
OTHERS: Final = "others"
"""The address, or the principal, in records of those beyond the limits."""
_MINUTE_S: Final = 60

_Key: TypeAlias = tuple[Kind.ValueType, str]


@dataclass
class _Count:
    whole: int = 0
    more: int = 0
    last: audit_pb2.CallAudited | None = None


class Counts:
    """Counts refusals by kind and caller within the current minute."""

    def __init__(self) -> None:
        self._minute = -1.0
        self._counts: dict[_Key, _Count] = {}
        self._callers: Counter[Kind.ValueType] = Counter()
        """Number of callers of each kind that have a count of their own."""

    @property
    def remembered(self) -> int:
        """Number of counts in memory."""
        return len(self._counts)

    def takes(self, record: audit_pb2.CallAudited, now: float) -> bool:
        """Return whether a record is to be written whole; else count it. Call `over` first.

        `now`: seconds of a monotonic clock. Sets `peer`, or `principal`, to OTHERS beyond the limits.
        """
        most = WHOLE.get(record.kind)
        if most is None:
            return True
        self._minute = now // _MINUTE_S
        key = self._key(record)
        if key not in self._counts:
            self._counts[key] = _Count()
            self._callers[key[0]] += 1
        count = self._counts[key]
        if count.whole < most:
            count.whole += 1
            return True
        count.more += 1
        count.last = record
        return False

    def over(self, now: float) -> list[audit_pb2.CallAudited]:
        """Return one record for each caller and kind with refusals that were only counted, once their minute
        has ended.
        """
        if now // _MINUTE_S == self._minute:
            return []
        counted = [count for count in self._counts.values() if count.last is not None]
        self._counts = {}
        self._callers.clear()
        records = []
        for count in counted:
            assert count.last is not None
            count.last.calls = count.more
            records.append(count.last)
        return records

    def _key(self, record: audit_pb2.CallAudited) -> _Key:
        is_known = record.kind != UNAUTHENTICATED
        key = record.kind, record.principal if is_known else record.peer
        if key in self._counts or self._callers[record.kind] < (PRINCIPALS if is_known else PEERS):
            return key
        if is_known:
            record.principal = OTHERS
        else:
            record.peer = OTHERS
        return record.kind, OTHERS


def place_of(peer_name: str) -> str:
    """Return the address of a gRPC peer without its port: of IPv6 its /64 network, of other sockets their
    kind.
    """
    peer = peer_of(peer_name)
    return network(peer[0]) if peer is not None else peer_name.partition(":")[0] or "unknown"
