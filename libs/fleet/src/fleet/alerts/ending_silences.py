"""Silences that are about to end: which are announced, to whom, and what became of it. Pure.

A silence that still holds back an open alert shortly before its end (`silences.ENDS_SOON`) is announced to
the receivers of what it holds back, once to each: whoever silenced it may have forgotten it. Every attempt is
in `daggers.alerts`, so a monitor that restarts or takes the lead announces nothing again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TypeAlias

from daggers.v1 import alerts_pb2

from daggerspec.receivers import takes_announcements
from fleet.alerts.alert import Alert, Delivery, Notify
from fleet.alerts.routing.labels import list_labels
from fleet.alerts.routing.silences import Silence, find_freed, list_ending
from fleet.alerts.routing.trees import parse_destination

SilenceNotification: TypeAlias = alerts_pb2.SilenceNotificationSent | alerts_pb2.SilenceNotificationFailed


@dataclass(frozen=True, slots=True)
class EndingSilence:
    """Silence that is about to end, and the open alerts that nothing holds back any more from then on."""

    silence: Silence
    alerts: tuple[Alert, ...]


class EndAnnouncements:
    """Attempts to announce ends of silences, and which of them are due."""

    def __init__(self) -> None:
        self._deliveries: dict[tuple[str, str], Delivery] = {}
        """By silence and receiver."""
        self._newest: tuple[tuple[int, tuple[str, ...]], list[EndingSilence]] = ((-1, ()), [])
        """Newest answer of `find`, and the sequence and silences that it is of."""

    # ---- Fold ----------------------------------------------------------------------------------------------

    def is_next(self, event: SilenceNotification) -> bool:
        """Tell whether an attempt is the next one of its silence and receiver."""
        notice = event.notice
        before = self._deliveries.get((notice.silence_id, notice.receiver), Delivery())
        return not before.done and notice.attempt == before.attempts + 1

    def note(self, event: SilenceNotification) -> None:
        """Note what became of the next attempt."""
        notice, not_before = event.notice, None
        if isinstance(event, alerts_pb2.SilenceNotificationFailed) and event.HasField("not_before"):
            not_before = event.not_before.ToDatetime(tzinfo=UTC)
        after = Delivery(notice.attempt, not_before, done=not_before is None)
        self._deliveries[notice.silence_id, notice.receiver] = after

    def forget(self, silences: Iterable[str]) -> None:
        """Forget silences that ended long ago."""
        old = set(silences)
        self._deliveries = {name: own for name, own in self._deliveries.items() if name[0] not in old}

    # ---- What is due ---------------------------------------------------------------------------------------

    def find(
        self,
        silences: Mapping[str, Silence],
        list_free: Callable[[], Iterable[Alert]],
        now: datetime,
        sequence: int,
    ) -> list[EndingSilence]:
        """Return the silences that are about to end and hold something back.

        `list_free`: lists the open alerts that no cause holds back. `sequence`: of the newest record.
        """
        ending = list_ending(silences.values(), now)
        if not ending:
            return []
        key = (sequence, tuple(silence.id for silence in ending))
        if self._newest[0] != key:
            free = list(list_free())
            labels = list(map(list_labels, free))
            answer = []
            for silence in ending:
                numbers = find_freed(silence, silences.values(), labels)
                if numbers:
                    answer.append(EndingSilence(silence, tuple(free[number] for number in numbers)))
            self._newest = (key, answer)
        return self._newest[1]

    def find_turns(self, ending: Iterable[EndingSilence], now: datetime) -> Iterator[Notify]:
        """Yield what is to be announced now, for each receiver."""
        for one in ending:
            for receiver, alerts in _list_by_receiver(one.alerts, now).items():
                before = self._deliveries.get((one.silence.id, receiver), Delivery())
                is_early = before.not_before is not None and now < before.not_before
                if not before.done and not is_early:
                    own = EndingSilence(one.silence, tuple(alerts))
                    yield Notify(alerts[0], receiver, before.attempts + 1, ending=own)


def _list_by_receiver(alerts: Iterable[Alert], now: datetime) -> dict[str, list[Alert]]:
    """List the alerts of each receiver that is to be told now, and takes what is no incident."""
    listed: dict[str, list[Alert]] = {}
    for alert in alerts:
        for receiver in filter(takes_announcements, dict.fromkeys(_list_receivers(alert, now))):
            listed.setdefault(receiver, []).append(alert)
    return listed


def _list_receivers(alert: Alert, now: datetime) -> Iterator[str]:
    """Yield the receivers of an alert; of routes with times of a week those that may be told now."""
    if alert.fired is None:
        return
    if not alert.is_routed:
        yield from alert.fired.receivers
    for message in alert.fired.destinations:
        try:
            destination = parse_destination(message)
        except (ValueError, OverflowError):
            continue
        if destination.is_active(now):
            yield from destination.receivers
