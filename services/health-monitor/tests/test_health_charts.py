"""Charts of alerts: what heartbeats have said of a dagger, drawn within bounds, and in mail alone."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from email.message import EmailMessage
from email.policy import default
from itertools import pairwise

import pytest
from daggers.v1 import alerts_pb2, telemetry_pb2
from PIL import Image
from pydantic import SecretStr

from fleet.alerts.alert import Alert, Condition, Notify, Span, evolve
from fleet.health import watch
from fleet.health.watch import Watch
from health_monitor.chart import MOST_POINTS, Band, Chart, Point
from health_monitor.drawing import HEIGHT, WIDTH, draw
from health_monitor.observe import traces
from health_monitor.observe.traces import Trace, build_chart
from health_monitor.page import Page
from health_monitor.receivers import email

NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)
SECOND, MINUTE, DAY = timedelta(seconds=1), timedelta(minutes=1), timedelta(days=1)
MOST_BYTES = 20_000
"""A mail with a chart stays small, whatever the chart has."""


def trace_of(beats: int, *, lag: int = 0, late: int = 0, every_s: int = 10) -> tuple[Trace, Watch]:
    """Build the trace of a driver that reads 10 records a second, and ends at noon: its lag and its late rows
    rise by these numbers each time.
    """
    trace, current = Trace(), watch.begin(NOON - beats * every_s * SECOND, 41)
    for number in range(1, beats + 1):
        now = NOON - (beats - number) * every_s * SECOND
        heartbeat = telemetry_pb2.Heartbeat(
            dagger="bookings",
            generation=41,
            rows_in=number * every_s * 10,
            late_rows=number * late,
            lag={"bookings-0": number * lag},
        )
        heartbeat.time.FromDatetime(now)
        current = watch.hear(current, heartbeat, now)
        trace.add(current)
    return trace, current


def fire(
    condition: Condition, *, value: float = 0.2, limit: float = 0.05, past: tuple[Span, ...] = ()
) -> Alert:
    """Fire an alert of `bookings` at noon, two minutes after its condition began."""
    meta = alerts_pb2.AlertMeta(dagger="bookings", condition=condition, incident=3)
    fired = alerts_pb2.AlertFired(meta=meta, value=value, limit=limit, unit="share", summary="it is so")
    fired.since.FromDatetime(NOON - 2 * MINUTE)
    return evolve(Alert(dagger="bookings", condition=condition, incident=2, past=past), fired, NOON)


def test_a_trace_has_a_point_for_each_step_and_the_newest_of_all() -> None:
    trace, newest = trace_of(20)
    points = trace.list_points(newest)

    steps = [(later.time - earlier.time) // SECOND for earlier, later in pairwise(points)]
    assert steps[:-1] == [30] * (len(steps) - 1)
    assert steps[-1] <= 30
    assert (points[-1].time, points[-1].records) == (NOON, 2_000)


def test_a_trace_is_bounded() -> None:
    trace, newest = trace_of(1_000)
    points = trace.list_points(None)

    assert len(points) == traces.MOST_POINTS
    assert trace.list_points(newest)[-1].time == NOON


def test_a_growing_lag_is_drawn_from_before_it_fired() -> None:
    chart = build_chart(fire(alerts_pb2.ALERT_CONDITION_LAG_GROWING), *trace_of(60, lag=100), NOON + MINUTE)

    assert chart is not None
    values = [point.value for point in chart.points if point.value is not None]
    assert values == sorted(values)
    assert (values[-1], chart.limit, chart.title) == (6_000, None, "records not read yet")
    assert chart.begin < NOON - 2 * MINUTE
    assert chart.bands == [Band(NOON - 2 * MINUTE, NOON + MINUTE)]


def test_a_share_is_drawn_beside_the_limit_that_fired() -> None:
    chart = build_chart(fire(alerts_pb2.ALERT_CONDITION_LATE_ROWS), *trace_of(60, late=20), NOON)

    assert chart is not None
    assert {round(point.value, 3) for point in chart.points if point.value is not None} == {0.2}
    assert (chart.limit, chart.unit) == (0.05, "share")
    assert chart.alternative == "share of the rows that came late: 20.0% to 20.0%, at last 20.0%, limit 5.0%"


def test_what_has_no_values_is_drawn_as_the_times_of_its_week_once_there_are_several() -> None:
    earlier = Span(NOON - 2 * DAY, NOON - 2 * DAY + MINUTE)
    kafka = alerts_pb2.ALERT_CONDITION_KAFKA_AWAY
    chart = build_chart(fire(kafka, past=(earlier,)), None, None, NOON)

    assert build_chart(fire(kafka), None, None, NOON) is None
    assert chart is not None
    assert (chart.title, len(chart.bands)) == ("open 2 times in the last seven days", 2)


def test_values_across_a_restart_have_a_gap() -> None:
    trace, _ = trace_of(12)
    current = watch.begin(NOON, 42)
    for number in (1, 2, 3):
        heartbeat = telemetry_pb2.Heartbeat(dagger="bookings", generation=42, rows_in=300 * number)
        now = NOON + number * 30 * SECOND
        heartbeat.time.FromDatetime(now)
        current = watch.hear(current, heartbeat, now)
        trace.add(current)
    chart = build_chart(fire(alerts_pb2.ALERT_CONDITION_NO_INPUT), trace, current, NOON + 2 * MINUTE)

    assert chart is not None
    assert [point.value for point in chart.points][-3:] == [None, 10.0, 10.0]


@pytest.mark.parametrize(
    "values", [[0.0], [1e12, None, 3.0], [0.0] * MOST_POINTS, [float(n) for n in range(199)]]
)
@pytest.mark.parametrize("limit", [None, 0.0, 5.0])
def test_a_picture_has_its_size_and_few_bytes_whatever_it_shows(
    values: list[float | None], limit: float | None
) -> None:
    points = [Point(NOON + number * SECOND, value) for number, value in enumerate(values)]
    bands = [Band(NOON + number * SECOND, NOON + (number + 1) * SECOND) for number in range(MOST_POINTS)]
    chart = Chart(title="x" * 60, begin=NOON, end=NOON + DAY, points=points, limit=limit, bands=bands)
    picture = draw(chart)

    assert Image.open(io.BytesIO(picture)).size == (2 * WIDTH, 2 * HEIGHT)
    assert len(picture) <= MOST_BYTES


def test_a_line_and_its_limit_are_seen_where_they_are() -> None:
    points = [Point(NOON + number * SECOND, 10.0) for number in range(61)]
    chart = Chart(title="", begin=NOON, end=NOON + MINUTE, points=points, limit=5.0)
    picture = Image.open(io.BytesIO(draw(chart))).convert("RGB")
    column = [picture.getpixel((20, y)) for y in range(picture.height)]
    blue, red = (
        [y for y, pixel in enumerate(column) if is_of(pixel)]
        for is_of in (lambda p: p[2] > p[0] + 60, lambda p: p[0] > p[2] + 100)
    )

    assert blue
    assert red
    assert max(blue) < min(red)  # the line is above its limit


@pytest.mark.parametrize("points", [0, MOST_POINTS + 1])
def test_what_cannot_be_drawn_is_refused(points: int) -> None:
    end = NOON + MINUTE if points else NOON
    chart = Chart(title="", begin=NOON, end=end, points=[Point(NOON, 1.0)] * points)

    with pytest.raises(ValueError, match="the chart "):
        draw(chart)


def mail_of(chart: Chart | None) -> EmailMessage:
    """Return the mail of an alert whose sentence has what HTML has."""
    alert = fire(alerts_pb2.ALERT_CONDITION_LAG_GROWING)
    assert alert.fired is not None
    alert.fired.summary = '<img src="https://evil.example/x"> & "grows"'
    settings = email.Settings(
        url=SecretStr("smtp://u:p@smtp.example.org"), to="on-call@example.org", sender="daggers@example.org"
    )
    page = Page(Notify(alert, "team", 1), "https://daggers.example", NOON, chart)
    return message_from_bytes(email.request(page, settings).message, _class=EmailMessage, policy=default)


def test_mail_has_the_chart_inline_with_a_text_in_its_place() -> None:
    chart = build_chart(fire(alerts_pb2.ALERT_CONDITION_LAG_GROWING), *trace_of(60, lag=100), NOON)
    assert chart is not None
    mail = mail_of(chart)
    text, html = mail.get_body(("plain",)), mail.get_body(("html",))
    [picture] = [part for part in mail.walk() if part.get_content_type() == "image/png"]
    assert text is not None
    assert html is not None

    assert f"chart: {chart.alternative}" in text.get_content()
    assert f'alt="{chart.alternative}"' in html.get_content()
    assert f'src="cid:{picture["Content-ID"].strip("<>")}"' in html.get_content()
    assert picture.get_content_disposition() == "inline"
    assert Image.open(io.BytesIO(picture.get_content())).format == "PNG"
    assert [part.get_content_type() for part in mail.walk()] == [
        "multipart/alternative", "text/plain", "multipart/related", "text/html", "image/png",
    ]  # fmt: skip


def test_html_of_a_mail_loads_nothing_and_has_no_tag_of_a_text() -> None:
    html = mail_of(None).get_body(("html",))
    assert html is not None

    assert "&lt;img src=&quot;https://evil.example/x&quot;&gt; &amp; &quot;grows&quot;" in html.get_content()
    assert "<img" not in html.get_content()


def test_a_mail_without_a_chart_says_the_same_in_both_parts() -> None:
    mail = mail_of(None)
    page = Page(Notify(fire(alerts_pb2.ALERT_CONDITION_LAG_GROWING), "team", 1))
    text, html = mail.get_body(("plain",)), mail.get_body(("html",))
    assert text is not None
    assert html is not None

    for label in page.facts:
        assert f"{label}: " in text.get_content()
        assert f">{label}</td>" in html.get_content()
