"""How many refusals are written whole, and which are only counted: what floods the gateway does not flood its
audit. Pure: time is an argument.

Of each caller and kind the first few refusals of a minute are written whole; the rest of that minute is one
record with their number. Calls without a valid token are by the address they come from, of as many addresses
as `PEERS` in a minute; those of further addresses are counted together.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

from daggers.v1 import audit_pb2

from access.audits import CHECK, REFUSED, UNAUTHENTICATED, Kind
from chassis.connections import network, peer_of

WHOLE: Final[dict[Kind.ValueType, int]] = {REFUSED: 30, CHECK: 3, UNAUTHENTICATED: 1}
"""How many records of a caller and a kind are written whole in a minute; all of kinds that are not here."""
PEERS: Final = 100
"""Of how many addresses calls without a valid token are told apart in a minute."""
OTHERS: Final = "others"
"""The address of those beyond."""
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

    def takes(self, record: audit_pb2.CallAudited, now: float) -> bool:
        """Whether a record is to be written whole; else it is counted. Ask for `over` first.

        `now`: seconds of any clock that goes on. May change `peer`.
        """
        most = WHOLE.get(record.kind)
        if most is None:
            return True
        self._minute = now // _MINUTE_S
        count = self._counts.setdefault(self._key(record), _Count())
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
        records = []
        for count in counted:
            assert count.last is not None
            count.last.calls = count.more
            records.append(count.last)
        return records

    def _key(self, record: audit_pb2.CallAudited) -> _Key:
        if record.kind != UNAUTHENTICATED:
            return record.kind, record.principal
        key = record.kind, record.peer
        if key not in self._counts and len(self._peers()) >= PEERS:
            record.peer = OTHERS
            key = record.kind, OTHERS
        return key

    def _peers(self) -> list[_Key]:
        return [key for key in self._counts if key[0] == UNAUTHENTICATED]


def place_of(told: str) -> str:
    """Where a peer of gRPC is, without its port: an address, of IPv6 its /64, or the kind of socket."""
    peer = peer_of(told)
    return network(peer[0]) if peer is not None else told.partition(":")[0] or "unknown"
