"""Texts of the message that a silence is about to end: the page of an alert that stands for it. Pure."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from daggers.v1 import alerts_pb2

from fleet.alerts.alert import PLATFORM, TEAM, Alert, Notify, dedup_key_of
from fleet.alerts.ending_silences import EndingSilence
from fleet.alerts.routing.silences import Silence
from health_monitor.page import RUNBOOK, Page, format_time, list_alerts

NAME: Final = "silence ends"
"""Name of the alert that stands for the silence."""
_AGAIN: Final = "2h"
"""Time that the proposed command silences the same for."""

_MOST: Final = 100
"""Incidents that a message for programs names, at most."""


@dataclass(frozen=True, slots=True)
class SilencePage(Page):
    """Texts of one announcement, as receivers have those of an alert."""

    @property
    def ending(self) -> EndingSilence:
        """The silence, and what it holds back."""
        assert self.notify.ending is not None
        return self.notify.ending

    @property
    def needs_acknowledgement(self) -> bool:
        """False: nothing fires."""
        return False

    @property
    def reference(self) -> str:
        """Name of the silence in commands."""
        return f"silence {self.ending.silence.id}"

    @property
    def idempotency_key(self) -> str:
        """Key of the message: the same at every attempt that says the same."""
        return self._hash_with(self.ending.alerts)

    @property
    def facts(self) -> dict[str, str]:
        """Facts beside the sentence, by label: who silenced it and why, what it holds back, how to go on."""
        silence, url = self.ending.silence, self.runbook_url or RUNBOOK
        return {
            "silenced by": silence.author or "nobody known",
            "reason": silence.reason,
            "it holds back": list_alerts(self.ending.alerts),
            "next": f"`{write_command(silence)}` goes on with it for {_AGAIN}",
            "runbook": f"{url}#silence-alerts",
        }

    @property
    def link(self) -> str:
        """URL of the page of silences; empty without a portal."""
        return f"{self.portal.rstrip('/')}/silences" if self.portal else ""

    def describe(self) -> dict[str, Any]:
        """Describe the silence for programs: names and values as JSON has them."""
        silence = self.ending.silence
        return {
            "silence": silence.id,
            "team": silence.team,
            "matchers": [str(matcher) for matcher in silence.matchers],
            "author": silence.author,
            "reason": silence.reason,
            "begin": silence.begin.isoformat(),
            "end": silence.end.isoformat(),
            "alerts": len(self.ending.alerts),
            "incidents": [alert.id for alert in self.ending.alerts[:_MOST]],
            "summary": self.sentence,
            "next": self.facts["next"],
            "link": self.link,
        }


def build_page(notify: Notify, portal: str, now: datetime, runbook_url: str) -> SilencePage:
    """Build the page of an announcement. `portal`, `runbook_url`: URLs, empty without one."""
    assert notify.ending is not None
    own = replace(notify, alert=_build_alert(notify.ending, now))
    return SilencePage(own, portal, now, runbook_url=runbook_url)


def write_command(silence: Silence) -> str:
    """Write the command that silences the same once more."""
    team = ["--team", silence.team] if silence.team else []
    words = ["daggers", "alerts", "silence", *map(str, silence.matchers), *team, "--for", _AGAIN]
    return shlex.join([*words, "--reason", silence.reason])


def _build_alert(ending: EndingSilence, now: datetime) -> Alert:
    """Build the alert that stands for the silence: receivers show it as they show all others."""
    silence, count = ending.silence, len(ending.alerts)
    alert = Alert(
        dagger=TEAM + silence.team if silence.team else PLATFORM,
        condition=alerts_pb2.ALERT_CONDITION_RULE,
        rule=NAME,
        key={"id": silence.id},
        incident=1,
    )
    fired = alerts_pb2.AlertFired(
        meta=alert.meta(),
        dedup_key=dedup_key_of(alert.meta()),
        severity=alerts_pb2.ALERT_SEVERITY_WARNING,
        summary=(
            f"the silence of {' '.join(map(str, silence.matchers))} ends at {format_time(silence.end)}, and"
            f" holds back {count:,} open {'alert' if count == 1 else 'alerts'}"
        ),
        team=silence.team,
    )
    fired.since.FromDatetime(silence.begin)
    return alert._replace(fired=fired, fired_at=now)
