"""Count how long the previews of each team ran in the last hour, on this gateway. Pure: time
is an argument.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Final

from daggers.v1 import access_pb2

QUOTA: Final = "preview_seconds_per_hour"
"""Name of the field in Quotas."""
_HOUR_S: Final = 3600.0


class PreviewSeconds:
    """Duration of previews by team; times are seconds of a monotonic clock."""

    def __init__(self) -> None:
        self._ended: dict[str, deque[tuple[float, float]]] = {}

    def add(self, team: str, seconds: float, now: float) -> None:
        """Add a preview of a team that has ended after so many seconds."""
        self._ended.setdefault(team, deque()).append((now, seconds))
        for name in [*self._ended]:
            self.seconds_used(name, now)

    def seconds_used(self, team: str, now: float) -> float:
        """Return the seconds of previews that ended in the last hour."""
        ended = self._ended.get(team, deque())
        while ended and ended[0][0] <= now - _HOUR_S:
            ended.popleft()
        if not ended:
            self._ended.pop(team, None)
        return sum(seconds for _, seconds in ended)

    def refusal(self, team: str, quota: access_pb2.Quota, now: float) -> tuple[str, Mapping[str, str]] | None:
        """Return why a team may not start a preview now, a sentence and its metadata; None where it may."""
        seconds_used = self.seconds_used(team, now)
        if not quota.HasField("hard") or seconds_used < quota.hard:
            return None
        minutes = self._minutes(team, seconds_used - quota.hard, now)
        text = (
            f"previews of team {team} ran {seconds_used:,.0f} seconds in the last hour, and its quota is"
            f" {quota.hard:,}: there is some again in {minutes} min"
        )
        return text, {"team": team, "quota": QUOTA, "limit": str(quota.hard), "used": f"{seconds_used:.0f}"}

    def warning(self, team: str, quota: access_pb2.Quota, now: float) -> str | None:
        """Return a warning for a team beyond its soft limit."""
        if not quota.HasField("soft") or self.seconds_used(team, now) <= quota.soft:
            return None
        most = f"more than {quota.soft:,} seconds in the last hour"
        return f"previews of team {team} ran {most}, from where on its quota warns"

    def _minutes(self, team: str, too_many: float, now: float) -> int:
        """Return the minutes, rounded up, until `too_many` seconds of the use are more than an hour ago."""
        for ended, seconds in self._ended.get(team, ()):
            too_many -= seconds
            if too_many < 0:
                return max(1, -int(-(ended + _HOUR_S - now) // 60))
        return 1
