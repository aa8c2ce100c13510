"""`daggers alerts explain`: when a condition of a dagger is an alert, and whose word that is."""

from typing import Annotated

import typer
from daggers.v1 import alerts_pb2, gateway_pb2

from chassis.durations import format_measure, format_span
from cli.commands.alert_text import second, summary
from cli.errors import MisusedError
from cli.framework.session import Session
from cli.output.json_views.answers import to_json
from cli.output.printer import Printer
from daggerspec.conditionlimits import CONDITIONS, TIMES
from daggerspec.nearest import hint, nearest

FLAGS = {"dagger": "NAME", "condition": "CONDITION"}
_MEANINGS = {
    "off": "no alert of it fires",
    "limit": "what is too much",
    "clear": "it is over once the value is no more than this",
    "hold": "time that it must hold before the alert fires",
    "after_start": "no alert fires sooner after a launch",
}


def explain(
    session: Session,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the dagger.")],
    condition: Annotated[str, typer.Argument(help=f"Condition: {', '.join(CONDITIONS)}.")],
) -> None:
    """Explain when a condition of a dagger is an alert: its limits, who set each, and the value now.

    Also show how often it fired in the last week and, where minutes tell of it, the range of values over the
    last day, and how often it would have fired by these limits.
    """
    label = condition.lower().replace("-", "_").replace(" ", "_")
    if label not in CONDITIONS:
        names = hint(nearest(label, CONDITIONS), f": {', '.join(CONDITIONS)}")
        raise MisusedError(f"{condition} is no condition of daggers{names}")
    number = alerts_pb2.AlertCondition.Value(f"ALERT_CONDITION_{label.upper()}")
    request = gateway_pb2.ExplainConditionRequest(dagger=name, condition=number)
    with session.connect(FLAGS) as gateway:
        answer = gateway.call(gateway.alerts.ExplainCondition, request)
    session.out.show(to_json(answer), lambda out: _show(out, label, answer))


def _show(out: Printer, label: str, answer: gateway_pb2.ExplainConditionResponse) -> None:
    rows = [
        (
            setting.name,
            "yes"
            if setting.name == "off"
            else format_measure(setting.value, "s" if setting.name in TIMES else answer.unit),
            setting.whose,
            _MEANINGS[setting.name],
        )
        for setting in answer.settings
    ]
    out.table(("SETTING", "VALUE", "WHOSE", "IS"), rows, empty="no health monitor has said its limits yet")
    if note := CONDITIONS[label].note:
        out.line(f"no limit of its own: {note}")
    out.line(f"now: {_describe_now(answer)}")
    if answer.HasField("history"):
        out.line(_describe_history(answer.history, answer.unit))
    else:
        out.line("would have fired: not known, as no numbers of each minute tell of it")
    out.line(_describe_week(answer))
    if answer.HasField("alert"):
        alert = answer.alert
        until = f"until {second(alert.until)}" if alert.HasField("until") else "and is open"
        out.line(f"fired: incident {alert.incident} since {second(alert.since)} {until}: {summary(alert)}")
    else:
        out.line("fired: never")


def _describe_now(answer: gateway_pb2.ExplainConditionResponse) -> str:
    if not answer.HasField("holds"):
        return "it cannot be judged: nothing was heard that tells of it"
    is_known = answer.HasField("value") and bool(answer.unit)
    value = f"{format_measure(answer.value, answer.unit)}; " if is_known else ""
    return f"{value}{'it holds' if answer.holds else 'it does not hold'}: {answer.summary}"


def _describe_week(answer: gateway_pb2.ExplainConditionResponse) -> str:
    """Say what the log of alerts has of the last week; values are known of a day alone."""
    if not answer.week_fired:
        return "last week: it did not fire"
    times = "once" if answer.week_fired == 1 else f"{answer.week_fired} times"
    return f"last week: it fired {times}, {format_span(answer.week_fired_time.ToTimedelta())} in all"


def _describe_history(history: gateway_pb2.ConditionHistory, unit: str) -> str:
    least, greatest = (format_measure(value, unit) for value in (history.least, history.greatest))
    since = f"since {second(history.begin)} ({history.minutes:,} minutes known)"
    if not history.fired:
        instant = second(history.greatest_time)
        return f"{since}: {least} to {greatest}; would not have fired, nearest {greatest} at {instant}"
    times = "once" if history.fired == 1 else f"{history.fired} times"
    span = format_span(history.fired_time.ToTimedelta())
    return f"{since}: {least} to {greatest}; would have fired {times}, {span} in all"
