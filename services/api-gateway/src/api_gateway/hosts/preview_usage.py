"""How long the previews of each team ran in the last hour, by this gateway. Pure: time is an argument."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from daggers.v1 import access_pb2

QUOTA: Final = "preview_seconds_per_hour"
"""Its field in Quotas."""
_HOUR_S: Final = 3600.0


class PreviewSeconds:
    """What previews took, of each team; times are seconds of any clock that goes on."""

    def __init__(self) -> None:
        self._ended: dict[str, deque[tuple[float, float]]] = {}

    def add(self, team: str, seconds: float, now: float) -> None:
        """A preview of a team has ended that ran so long."""
        self._ended.setdefault(team, deque()).append((now, seconds))
        for known in [*self._ended]:
            self.used(known, now)

    def used(self, team: str, now: float) -> float:
        """Seconds of those that ended in the last hour."""
        ended = self._ended.get(team, deque())
        while ended and ended[0][0] <= now - _HOUR_S:
            ended.popleft()
        if not ended:
            self._ended.pop(team, None)
        return sum(seconds for _, seconds in ended)

    def refusal(self, team: str, quota: access_pb2.Quota, now: float) -> tuple[str, Mapping[str, str]] | None:
        """Why a team gets no preview now, a sentence and metadata."""
        used = self.used(team, now)
        if not quota.HasField("hard") or used < quota.hard:
            return None
        minutes = self._minutes(team, used - quota.hard, now)
        text = (
            f"previews of team {team} ran {used:,.0f} seconds in the last hour, and its quota is"
            f" {quota.hard:,}: there is some again in {minutes} min"
        )
        return text, {"team": team, "quota": QUOTA, "limit": str(quota.hard), "used": f"{used:.0f}"}

    def warning(self, team: str, quota: access_pb2.Quota, now: float) -> str | None:
        """What a team is told that gets one all the same."""
        if not quota.HasField("soft") or self.used(team, now) <= quota.soft:
            return None
        most = f"more than {quota.soft:,} seconds in the last hour"
        return f"previews of team {team} ran {most}, from where on its quota warns"

    def _minutes(self, team: str, too_many: float, now: float) -> int:
        """Until so much of it is more than an hour ago, rounded up."""
        for ended, seconds in self._ended.get(team, ()):
            too_many -= seconds
            if too_many < 0:
                return max(1, -int(-(ended + _HOUR_S - now) // 60))
        return 1
