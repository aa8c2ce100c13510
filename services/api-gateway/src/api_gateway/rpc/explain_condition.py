"""ExplainCondition: when a condition of a dagger is an alert, whose word that is, and what is so now.

It is judged by the code of the health monitor, by what this gateway heard.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from daggers.v1 import alerts_pb2, gateway_pb2

from api_gateway.not_found import no_dagger
from api_gateway.rpc.alert_log import Alerts
from api_gateway.rpc.alert_messages import build_alert
from api_gateway.state.heartbeat_cache import HeartbeatCache
from api_gateway.state.minute_sums import MinuteCache
from chassis.errors import invalid
from daggerspec.conditionlimits import CONDITIONS
from daggerspec.violation import Violation
from fleet import Dagger, Fleet
from fleet.alerts.alert import condition_label
from fleet.conditions import minute_history
from fleet.conditions.condition_limits import (
    ConditionSettings,
    Layer,
    apply_limits,
    default_clear,
    find_layers,
    find_settings,
    list_settings,
)
from fleet.conditions.dagger_conditions import diagnose
from fleet.health.degradation import Limits
from fleet.health.minutes import FIELDS

pb = gateway_pb2
MONITOR: Final = "health monitor"
"""Layer of the settings of the leading monitor."""
_DEFAULT: Final = "default"


def explain(
    request: pb.ExplainConditionRequest,
    alerts: Alerts,
    fleet: Fleet,
    heartbeats: HeartbeatCache,
    minutes: MinuteCache,
) -> pb.ExplainConditionResponse:
    """Explain a condition of a dagger. Raises: ApiError."""
    label = _read_label(request)
    dagger = fleet.living(request.dagger)
    if dagger is None:
        raise no_dagger(request.dagger, fleet)
    layers = [
        *find_layers(dagger.spec, fleet.catalogue),
        Layer(MONITOR, alerts.ledger.monitor_conditions),
    ]
    settings = find_settings(label, layers)
    now, kind = alerts.clock(), CONDITIONS[label]
    answer = pb.ExplainConditionResponse(
        settings=_list_settings(request.condition, settings, dagger), unit=kind.unit
    )
    if label == "freshness_missed":
        answer.unit = "s"
    watched, hearing = heartbeats.watch_of(dagger), heartbeats.hearing(now)
    limits = apply_limits(Limits(), list_settings(layers))
    finding = diagnose(dagger, watched, now=now, hearing=hearing, limits=limits).get(request.condition)
    if finding is not None:
        answer.holds, answer.summary = finding.active, finding.summary
        if finding.measure is not None:
            answer.value = finding.measure.value
    _add_history(answer, label, dagger, minutes)
    alert = alerts.ledger.alert(dagger.name, request.condition)
    if alert.fired is not None:
        answer.alert.CopyFrom(build_alert(alert, alerts.ledger, now))
    week = alert.list_week(now)
    answer.week_fired = len(week)
    answer.week_fired_time.FromTimedelta(sum((span.end - span.begin for span in week), timedelta()))
    return answer


def _read_label(request: pb.ExplainConditionRequest) -> str:
    """Return the label of the condition. Raises: ApiError, where it is none of a dagger."""
    is_listed = request.condition in alerts_pb2.AlertCondition.values()
    label = condition_label(request.condition) if is_listed else str(request.condition)
    if label not in CONDITIONS:
        text = f"{label} is no condition of daggers that has limits: {', '.join(CONDITIONS)}"
        raise invalid([Violation("condition", text, "UNKNOWN_CONDITION")])
    return label


def _list_settings(
    condition: alerts_pb2.AlertCondition.ValueType, own: ConditionSettings, dagger: Dagger
) -> Iterator[pb.ConditionSetting]:
    if own.off is not None and own.off.value:
        yield pb.ConditionSetting(name="off", value=1, whose=own.off.whose)
    if dagger.spec.HasField("freshness") and condition == alerts_pb2.ALERT_CONDITION_FRESHNESS_MISSED:
        objective = dagger.spec.freshness.ToTimedelta().total_seconds()
        yield pb.ConditionSetting(name="limit", value=objective, whose="dagger")
    if own.limit is not None:
        yield pb.ConditionSetting(name="limit", value=own.limit.value, whose=own.limit.whose)
        clear = default_clear(condition, own.limit.value)
        if own.clear is not None:
            yield pb.ConditionSetting(name="clear", value=own.clear.value, whose=own.clear.whose)
        elif clear is not None:
            yield pb.ConditionSetting(name="clear", value=clear, whose=_DEFAULT)
    if own.hold is not None:
        yield pb.ConditionSetting(name="hold", value=own.hold.value, whose=own.hold.whose)
    if own.after_start is not None:
        whose = own.after_start.whose
        yield pb.ConditionSetting(name="after_start", value=own.after_start.value, whose=whose)


def _add_history(
    answer: pb.ExplainConditionResponse, label: str, dagger: Dagger, minutes: MinuteCache
) -> None:
    """Add what the condition would have done with these limits over the minutes that are known."""
    by_name = {setting.name: setting.value for setting in answer.settings}
    if label not in minute_history.LABELS or "limit" not in by_name:
        return
    begin, series = minutes.sums_of(dagger).since(0)
    if begin < 0:
        return
    values = minute_history.list_values(label, dict(zip(FIELDS, series, strict=True)))
    limit = by_name["limit"]
    history = minute_history.simulate(
        values,
        limit=limit,
        clear=by_name.get("clear", limit),
        hold_minutes=max(1, math.ceil(by_name.get("hold", 0) / 60)),
    )
    if history is None:
        return
    message = answer.history
    message.begin.FromSeconds(begin * 60)
    message.end.FromSeconds((begin + len(values)) * 60)
    message.minutes, message.least, message.greatest = history.minutes, history.least, history.greatest
    message.greatest_time.FromSeconds((begin + history.greatest_at) * 60)
    message.fired = len(history.firings)
    message.fired_time.FromSeconds(60 * sum(end - first for first, end in history.firings))
