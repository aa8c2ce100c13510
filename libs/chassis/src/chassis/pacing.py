"""Pace of answers to calls that show no token.

Refusing a call costs a service as much as many a call that it serves: some thousand refusals a second take a
core, and everybody else waits. So refusals of one network are paced: some at once, as for a program whose
token ran out, and then so many a second. The answers of the others wait, which costs nothing, and holds up
who asks for one after the other.
"""

from __future__ import annotations

from typing import Final

PER_SECOND: Final = 20.0
"""Answers of one network a second, once `AT_ONCE` of them went out."""
AT_ONCE: Final = 100
"""Answers of one network that do not wait."""
LONGEST_S: Final = 2.0
"""An answer waits no longer, whatever else was asked for."""
_NETWORKS: Final = 10_000


class Pace:
    """Says how long each answer of a network waits. Pure: times are arguments, in seconds that go on.

    One number for a network: when its last answer is due (the generic cell rate algorithm).
    """

    def __init__(self, per_second: float = PER_SECOND, at_once: int = AT_ONCE) -> None:
        self._between_s = 1 / per_second
        self._ahead_s = at_once / per_second
        self._due: dict[str, float] = {}

    def delay_s(self, network: str, now: float) -> float:
        """Count an answer to a network; return for how many seconds it waits."""
        # No further ahead than the longest delay: who stops to flood is answered at once again soon after.
        last = now + self._ahead_s + LONGEST_S
        self._due[network] = due = min(max(self._due.get(network, now), now) + self._between_s, last)
        if len(self._due) > _NETWORKS:
            self._due = {name: then for name, then in self._due.items() if then > now}
        return max(0.0, due - self._ahead_s - now)

    @property
    def remembered(self) -> int:
        """Number of networks in memory."""
        return len(self._due)
