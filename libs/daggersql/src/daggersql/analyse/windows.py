"""Windows in GROUP BY, and the functions that tell their bounds. Spans of time are constants."""

from __future__ import annotations

import re
from collections.abc import Iterable
from datetime import timedelta

from daggersql.analyse.checks import Checks
from daggersql.findings import Report, Rewrite, Span, instead
from daggersql.ir.expr import Expr, ExprKind, call, wrong
from daggersql.ir.ops import Op
from daggersql.ir.relations import GroupWindow, bound_column
from daggersql.ir.types import TIMESTAMP, WINDOW_TIME
from daggersql.limits import MAX_HOPS, MAX_INTERVAL, MAX_WINDOW
from daggersql.plan import Window
from daggersql.syntax import tree
from daggersql.syntax.cursor import span_of

_UNITS = {
    "WEEK": timedelta(weeks=1),
    "DAY": timedelta(days=1),
    "HOUR": timedelta(hours=1),
    "MINUTE": timedelta(minutes=1),
    "SECOND": timedelta(seconds=1),
    "MILLISECOND": timedelta(milliseconds=1),
}
KINDS = {"TUMBLE": 1, "HOP": 2, "SESSION": 1}
"""Window functions, and how many spans of time each takes."""
_INTERVAL = "INTERVAL '60' SECOND"
_SHORT = {
    **dict.fromkeys(("s", "sec", "secs"), "SECOND"),
    **dict.fromkeys(("m", "min", "mins"), "MINUTE"),
    **dict.fromkeys(("h", "hr", "hrs"), "HOUR"),
    "d": "DAY",
}
"""Units of time as dagger files and other databases write them."""


def tumble(time: str = "rowtime") -> str:
    """Write a window of a minute by an event time, for suggestions."""
    return f"TUMBLE({time}, INTERVAL '1' MINUTE)"


_EXAMPLE = {
    "TUMBLE": tumble(),
    "HOP": "HOP(rowtime, INTERVAL '1' MINUTE, INTERVAL '5' MINUTE)",
    "SESSION": "SESSION(rowtime, INTERVAL '5' MINUTE)",
}
_BOUNDS = re.compile(r"(TUMBLE|HOP|SESSION)_(START|END|ROWTIME|PROCTIME)")
_NUMBER = re.compile(r"\s*(\d{1,30})(?:\.(\d{1,6}))?\s*")
_CLOCK = {
    "DAY TO HOUR": r"(\d+) (\d+)()()",
    "DAY TO MINUTE": r"(\d+) (\d+):(\d+)()",
    "DAY TO SECOND": r"(\d+) (\d+):(\d+):(\d+)",
    "HOUR TO MINUTE": r"()(\d+):(\d+)()",
    "HOUR TO SECOND": r"()(\d+):(\d+):(\d+)",
    "MINUTE TO SECOND": r"()()(\d+):(\d+)",
}


def interval(node: tree.Node, report: Report) -> timedelta | None:
    """Parse an INTERVAL of fixed length; None, with a finding, if it has none."""
    if not isinstance(node, tree.Interval):
        _refuse_interval(node, f"A span of time is written {_INTERVAL}.", report)
        return None
    if node.meta["wrong"]:
        return None
    value, unit = node.this, node.args["unit"].name.removesuffix("S")
    if not isinstance(value, tree.Literal) or not value.is_string:
        _refuse_interval(node, "The number of an INTERVAL stands in single quotes.", report)
        return None
    try:
        length = _read(value.this, unit)
    except OverflowError:
        length = timedelta.max
    if length is not None and abs(length) > MAX_INTERVAL:
        report.error(
            "INTERVAL_TOO_LONG", span_of(node), f"An INTERVAL is at most {MAX_INTERVAL.days} days long."
        )
        return None
    if length is None:
        fixed = "write a number and DAY, HOUR, MINUTE or SECOND"
        problem = f"This is not a span of time of fixed length: {fixed}."
        _refuse_interval(node, problem, report, _in_full(value.this))
        return None
    return -length if node.meta.get("sign") == "-" else length


def _refuse_interval(node: tree.Node, problem: str, report: Report, right: str = _INTERVAL) -> None:
    """Report a span of time with errors, and suggest one."""
    report.error("BAD_INTERVAL", span_of(node), problem, instead(span_of(node), right))


def _in_full(text: str) -> str:
    """Write the interval that `5m` stands for; an example for any other text."""
    short = re.fullmatch(r"\s*(\d+)\s*([a-z]+)\s*", text.lower())
    if short is None or not (unit := _SHORT.get(short[2]) or _whole_unit(short[2])):
        return _INTERVAL
    return f"INTERVAL '{short[1]}' {unit}"


def _whole_unit(word: str) -> str:
    unit = word.upper().removesuffix("S")
    return unit if unit in _UNITS else ""


def _read(text: str, unit: str) -> timedelta | None:
    sign, text = (-1, text.strip()[1:]) if text.strip().startswith("-") else (1, text)
    if unit in _UNITS:
        match = _NUMBER.fullmatch(text)
        if match is None or (match[2] and unit != "SECOND"):
            return None
        fraction = timedelta(microseconds=int((match[2] or "").ljust(6, "0")))
        return sign * (int(match[1]) * _UNITS[unit] + fraction)
    if unit in _CLOCK and (match := re.fullmatch(_CLOCK[unit], text.strip())):
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return sign * timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    return None


def read_window(call: tree.Anonymous, checks: Checks) -> GroupWindow | None:
    """Check TUMBLE(…), HOP(…) or SESSION(…), and build the window; None, with findings, on errors."""
    report = checks.report
    kind, arguments = call.name.upper().partition("_")[0], call.expressions
    spans = KINDS[kind]
    if len(arguments) != spans + 1:
        report.error(
            "WRONG_ARGUMENT_COUNT",
            span_of(call),
            f"{call.name} takes rowtime and {spans} INTERVAL{'s' if spans > 1 else ''}.",
            instead(span_of(call), _EXAMPLE[kind]) if call.name.upper() in KINDS else _EXAMPLE[kind],
        )
        return None
    time = _time(arguments[0], checks)
    lengths = [interval(argument, report) for argument in arguments[1:]]
    if time is None or not _long_enough(lengths, arguments, report):
        return None
    slide, size = lengths[0] or timedelta(), lengths[-1] or timedelta()
    if not _fits(kind, slide, size, arguments, report):
        return None
    return GroupWindow(Window(kind, size, slide), time, span_of(call), _arguments(call, report))


def is_bound(node: tree.Node) -> bool:
    """Tell whether a node is a call for a bound of a window, such as TUMBLE_END(…)."""
    return isinstance(node, tree.Anonymous) and _BOUNDS.fullmatch(node.name.upper()) is not None


def of_bound(call: tree.Node, report: Report) -> str:
    """Write the window of a call for a bound, as in GROUP BY: TUMBLE(…) of TUMBLE_END(…)."""
    return call.name.partition("_")[0] + _arguments(call, report)


def _arguments(call: tree.Node, report: Report) -> str:
    """Return the text of a call's arguments, with their brackets."""
    text = report.text[slice(*span_of(call))]
    return text[text.find("(") :]


def _time(node: tree.Node, checks: Checks) -> Expr | None:
    report, event_time = checks.report, checks.scope.event_time()
    if isinstance(node, tree.Anonymous) and node.name.upper() == "PROCTIME":
        report.error(
            "UNSUPPORTED_WINDOW",
            span_of(node),
            "Windows go by event time: a run over the same records must give the same rows.",
            instead(span_of(node), event_time),
        )
        return None
    time = checks.check(node)
    if time.wrong:
        return None
    if not time.is_event_time:
        words, change = f"use {event_time} here", instead(time.span, event_time)
        missing = None if event_time else checks.scope.missing_time()
        if missing is not None:
            words = f"add {missing.column} to the sub-query and use {missing.name} here"
            change = report.together(words, missing.rewrite, Rewrite(time.span, missing.name))
        elif event_time is None:
            words = "what is read here has none"
        report.error("NOT_A_TIME_ATTRIBUTE", time.span, f"Windows go by event time: {words}.", change)
        return None
    return time


def _long_enough(lengths: list[timedelta | None], nodes: list[tree.Node], report: Report) -> bool:
    fine = True
    for length, node in zip(lengths, nodes[1:], strict=True):
        if length is not None and length <= timedelta():
            _refuse_interval(node, "A window must be longer than zero.", report)
        elif length is not None and length > MAX_WINDOW:
            report.error(
                "WINDOW_TOO_LONG", span_of(node), f"A window is at most {MAX_WINDOW.days} days long."
            )
        elif length is not None and length % timedelta(milliseconds=1):
            report.error("BAD_INTERVAL", span_of(node), "A window is whole milliseconds long.")
        elif length is not None:
            continue
        fine = False
    return fine


def _fits(kind: str, slide: timedelta, size: timedelta, nodes: list[tree.Node], report: Report) -> bool:
    if slide > size:
        report.error(
            "BAD_INTERVAL",
            span_of(nodes[1]),
            "HOP takes the slide first, then the size, which is not shorter.",
        )
        return False
    if size > slide * MAX_HOPS:
        report.error(
            "HOP_TOO_DENSE",
            span_of(nodes[1]),
            f"Each record would be in more than {MAX_HOPS} windows: slide further.",
        )
        return False
    return True


def refuse_window(node: tree.Anonymous, checks: Checks) -> Expr:
    """Say that a window stands in GROUP BY."""
    name = node.name.upper()
    checks.report.error(
        "WINDOW_MISMATCH",
        span_of(node),
        f"{node.name} stands in GROUP BY; its bounds are {name}_START and {name}_END.",
    )
    return wrong(span_of(node))


def check_bound(call: tree.Anonymous, checks: Checks) -> Expr:
    """Check TUMBLE_END(…) and the like: bounds of the window that the query groups by."""
    report, group = checks.report, checks.window
    span = span_of(call)
    named_window = read_window(call, checks)
    if named_window is None:
        return wrong(span)
    kind, _, which = call.name.upper().partition("_")
    if group is None and checks.has_group:
        return wrong(span)  # what is wrong with GROUP BY was said
    if group is None:
        suggestion = f"GROUP BY {kind}{named_window.arguments}"
        report.error(
            "WINDOW_MISMATCH",
            span,
            f"{call.name} needs a window to be the bound of: {suggestion}.",
            checks.group_by() or suggestion,
        )
        return wrong(span)
    if not named_window.same_as(group):
        suggestion = group.bound_text(which)
        report.error(
            "WINDOW_MISMATCH",
            span,
            "The query groups by another window.",
            instead(span, suggestion),
        )
        return wrong(span)
    return bound_at(which, span)


def bound_at(which: str, span: Span) -> Expr:
    """Build a bound of the window that the query groups by: START, END, ROWTIME or PROCTIME."""
    if which == "PROCTIME":
        return call(Op.NOW, TIMESTAMP, span)
    kind = WINDOW_TIME if which == "ROWTIME" else TIMESTAMP
    return Expr(Op.BOUND, kind, span, ref=bound_column(which))


def bounds_as_columns() -> dict[str, Expr]:
    """Build the columns that the table-valued form of a window adds."""
    names = {"window_start": "START", "window_end": "END", "window_time": "ROWTIME"}
    return {name: bound_at(which, (0, 0)) for name, which in names.items()}


def refuse_bounds(values: Iterable[Expr], report: Report) -> None:
    """Say of expressions over rows that the bounds of a window are none of a row's."""
    for value in values:
        bound = next((node for node in value.nodes() if node.kind is ExprKind.WINDOW), None)
        if bound is not None:
            report.error(
                "WINDOW_MISMATCH",
                bound.span,
                "A row has no bounds of a window, its groups have: select them beside GROUP BY, outside of"
                " aggregates; conditions on them are HAVING.",
                "HAVING",
            )
