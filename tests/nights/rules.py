"""Rules that keep on-call informed, and how each is taken away, so that nights miss it.

A rule is one seam of the product; here it is put out of force, and nothing else is changed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

import pytest
from daggers.v1 import alerts_pb2, rules_pb2

from daggersql.rules.incidents import RuleJudging
from eventlog import Record
from fleet.alerts import alert, ledger, routed_groups
from fleet.alerts.alert import Alert
from fleet.alerts.ending_silences import EndAnnouncements
from fleet.alerts.ledger import Ledger
from fleet.alerts.routing import grouping
from fleet.alerts.routing.grouping import Attempts, Notice
from health_monitor.alerts import routing
from health_monitor.conditions import row_rules
from health_monitor.conditions.row_rules import RowRules


def without_fencing(patch: pytest.MonkeyPatch) -> None:
    """Take facts of a monitor that was replaced."""
    apply = Ledger.apply

    def take(self: Ledger, record: Record) -> bool:
        message: Any = record.message
        epoch = self.epoch
        if isinstance(message, alerts_pb2.AlertFired | alerts_pb2.AlertResolved):
            self.epoch = message.meta.epoch
        changed = apply(self, record)
        if not isinstance(message, alerts_pb2.MonitorStarted):
            self.epoch = epoch
        return changed

    patch.setattr(Ledger, "apply", take)


def without_attempts(patch: pytest.MonkeyPatch) -> None:
    """Forget that a receiver has taken a message."""
    patch.setattr(alert, "_record_attempt", lambda before, *_: before)


def without_notices(patch: pytest.MonkeyPatch) -> None:
    """Forget that a receiver has taken a message of a group."""
    patch.setattr(grouping, "record", lambda groups, *_: groups)


def without_pauses(patch: pytest.MonkeyPatch) -> None:
    """Call a receiver that limits its calls all the same."""
    patch.setattr(Ledger, "_pause", lambda *_: None)


def without_silences(patch: pytest.MonkeyPatch) -> None:
    """Let silences hold nothing back."""
    patch.setattr(ledger, "_is_silenced", lambda *_: False)


def without_causes(patch: pytest.MonkeyPatch) -> None:
    """Let causes hold nothing back."""
    patch.setattr(Ledger, "find_causes", lambda _: {})


def without_release(patch: pytest.MonkeyPatch) -> None:
    """Hold back what a cause holds back when it is over, too."""
    find_causes, remembered = Ledger.find_causes, dict[int, dict[Any, Any]]()

    def find(self: Ledger) -> dict[Any, Any]:
        causes = remembered.setdefault(id(self), {})
        causes |= find_causes(self)
        return causes

    patch.setattr(Ledger, "find_causes", find)


def without_untold_ends(patch: pytest.MonkeyPatch) -> None:
    """Tell the end of what a group never said to be open."""
    plan = grouping.plan

    def tell_all(group: Any, receiver: str, now: datetime, **judges: Any) -> Notice | None:
        notice = plan(group, receiver, now, **judges)
        ended = {name for name, member in group.members.items() if member.end and member.end <= now}
        return notice and replace(notice, resolved=notice.resolved | ended - notice.firing)

    patch.setattr(grouping, "plan", tell_all)


def without_lost_answers(patch: pytest.MonkeyPatch) -> None:
    """Take an attempt that failed for one that never arrived."""
    fail = grouping.fail

    def forget(*args: Any) -> Any:
        groups = dict(fail(*args))
        for key, group in groups.items():
            attempts = {
                name: replace(failed, announced=frozenset(), ended=frozenset())
                for name, failed in group.attempts.items()
            }
            groups[key] = replace(group, attempts=attempts)
        return groups

    patch.setattr(grouping, "fail", forget)


def without_uncertainty(patch: pytest.MonkeyPatch) -> None:
    """Count what attempts said that failed as told once another message is taken."""
    record = grouping.record

    def take(groups: Any, key: Any, receiver: str, notice: Notice) -> Any:
        failed: Attempts | None = groups[key].attempts.get(receiver) if key in groups else None
        if failed is not None:
            unsaid = failed.announced & groups[key].members.keys() - notice.resolved
            notice = replace(notice, firing=notice.firing | unsaid)
        return record(groups, key, receiver, notice)

    patch.setattr(grouping, "record", take)


def without_grouping(patch: pytest.MonkeyPatch) -> None:
    """Put alerts of all daggers and conditions into one group of their route."""
    list_labels = routed_groups.list_labels
    first: dict[str, str] = {}

    def list_first(one: Alert) -> Any:
        if not first:
            first.update(list_labels(one))
        return first

    patch.setattr(routed_groups, "list_labels", list_first)


def without_reopening(patch: pytest.MonkeyPatch) -> None:
    """Tell the end of an incident of before while the alert fires anew in another group."""
    patch.setattr(grouping, "reopen", lambda groups, *_: groups)


def without_single_alerts(patch: pytest.MonkeyPatch) -> None:
    """Lead to a group what was told by itself, and not that it is over, when it fires anew."""
    patch.setattr(routing, "_is_shown_alone", lambda _: False)


def without_acknowledgements(patch: pytest.MonkeyPatch) -> None:
    """Escalate what somebody looks after."""
    find = grouping.find_escalation
    patch.setattr(
        grouping, "find_escalation", lambda *args, **given: find(*args, **{**given, "is_acknowledged": False})
    )


def without_escalation(patch: pytest.MonkeyPatch) -> None:
    """Escalate nothing."""
    patch.setattr(grouping, "find_escalation", lambda *_, **__: ())


def with_escalation_at_once(patch: pytest.MonkeyPatch) -> None:
    """Escalate all at once."""
    patch.setattr(grouping, "find_escalation", lambda destination, **_: destination.escalate_to)


def without_ends_of_rules(patch: pytest.MonkeyPatch) -> None:
    """Let rules that are removed or changed, and daggers that are stopped, end no incident."""
    patch.setattr(row_rules, "_why_over", lambda *_: "")


def without_order(patch: pytest.MonkeyPatch) -> None:
    """Count an observation that comes again, of a batch that is repeated, as the newest."""
    add = RowRules.add

    def take(self: RowRules, observed: rules_pb2.RuleObserved) -> None:
        self._newest.clear()
        add(self, observed)

    patch.setattr(RowRules, "add", take)


def without_due(patch: pytest.MonkeyPatch) -> None:
    """Look at what is observed once, whether or not its turn was written."""
    turns = RowRules.turns

    def look_once(self: RowRules, *args: Any) -> Any:
        due = list(turns(self, *args))[:1]
        self._due.clear()
        return iter(due)

    patch.setattr(RowRules, "turns", look_once)


def without_most_incidents(patch: pytest.MonkeyPatch) -> None:
    """Give each key of a rule an incident of its own, however many there are."""
    patch.setattr(RuleJudging, "_has_room_for_incident", property(lambda _: True))


def without_count(patch: pytest.MonkeyPatch) -> None:
    """Leave keys beyond those with an incident of their own uncounted."""
    patch.setattr(RuleJudging, "_count_others", lambda *_: None)


def without_changes(patch: pytest.MonkeyPatch) -> None:
    """Leave the number of further keys at what it was at first."""
    patch.setattr(row_rules, "_change", lambda *_: None)


def without_announcements(patch: pytest.MonkeyPatch) -> None:
    """Let silences end of which nobody was reminded."""
    patch.setattr(EndAnnouncements, "find_turns", lambda *_: iter(()))


def without_note_of_announcements(patch: pytest.MonkeyPatch) -> None:
    """Forget that the end of a silence was announced."""
    patch.setattr(EndAnnouncements, "note", lambda *_: None)


RULES: Final[dict[Callable[[pytest.MonkeyPatch], None], str]] = {
    without_fencing: "counted in epoch",
    without_attempts: "its outcome is not the next",
    without_notices: " times",
    without_pauses: "called before",
    without_silences: "sent while it is silenced",
    without_causes: "sent while its cause lasts",
    without_release: "it does not know",
    without_untold_ends: "its begin was never sent",
    without_lost_answers: "it does not know",
    without_uncertainty: "it does not know",
    without_grouping: "does not belong there",
    without_reopening: "is open, and it does not know",
    without_single_alerts: "is over, and it does not know",
    without_acknowledgements: "cares",
    without_escalation: "it does not know",
    with_escalation_at_once: "was escalated",
    without_ends_of_rules: "its incident is open",
    without_order: "there is no incident",
    without_due: "there is no incident",
    without_most_incidents: "incidents of",
    without_count: "incidents of",
    without_changes: "incidents of",
    without_announcements: "that was not announced",
    without_note_of_announcements: "'silence', ",
}
"""Each rule, and a part of what nights say without it."""
