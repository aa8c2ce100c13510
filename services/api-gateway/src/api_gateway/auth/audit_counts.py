"""How many refusals are written whole, and which are only counted: what floods the gateway does not flood its
audit. Pure: time is an argument.

Of each caller and kind the first few refusals of a minute are written whole; the rest of that minute is one
record with their number. Calls without a valid token are by the address they come from, of as many addresses
as `PEERS` in a minute; those of further addresses are counted together, and so are those of principals beyond
`PRINCIPALS`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final, TypeAlias

from daggers.v1 import audit_pb2

from access.audits import CHECK, REFUSED, UNAUTHENTICATED, Kind
from chassis.connections import network, peer_of

WHOLE: Final[dict[Kind.ValueType, int]] = {REFUSED: 30, CHECK: 3, UNAUTHENTICATED: 1}
"""How many records of a caller and a kind are written whole in a minute; all of kinds that are not here."""
PEERS: Final = 100
"""Of how many addresses calls without a valid token are told apart in a minute."""
PRINCIPALS: Final = 1_000
"""Of how many principals the refusals of one kind are told apart in a minute."""
OTHERS: Final = "others"
"""The address, or the principal, of those beyond."""
_MINUTE_S: Final = 60

_Key: TypeAlias = tuple[Kind.ValueType, str]


@dataclass
class _Count:
    whole: int = 0
    more: int = 0
    last: audit_pb2.CallAudited | None = None


class Counts:
    """What came in the minute that goes on."""

    def __init__(self) -> None:
        self._minute = -1.0
        self._counts: dict[_Key, _Count] = {}
        self._callers: Counter[Kind.ValueType] = Counter()
        """How many of each kind are told apart."""

    @property
    def remembered(self) -> int:
        """How many counts are held."""
        return len(self._counts)

    def takes(self, record: audit_pb2.CallAudited, now: float) -> bool:
        """Whether a record is to be written whole; else it is counted. Ask for `over` first.

        `now`: seconds of any clock that goes on. May change `peer`, or `principal`.
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
        """What was counted in a minute that is over, a record for each caller and kind; each once."""
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


def place_of(told: str) -> str:
    """Where a peer of gRPC is, without its port: an address, of IPv6 its /64, or the kind of socket."""
    peer = peer_of(told)
    return network(peer[0]) if peer is not None else told.partition(":")[0] or "unknown"
