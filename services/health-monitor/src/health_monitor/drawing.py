"""Draws charts as small PNGs. The bounds of points and of the picture bound its time and its bytes."""

from __future__ import annotations

from functools import cache
from io import BytesIO
from itertools import groupby
from typing import Final

from PIL import Image, ImageDraw, ImageFont

from chassis.durations import format_measure
from health_monitor.chart import MOST_POINTS, Chart, Point

WIDTH: Final = 560
"""Width at which a message shows a picture, in CSS pixels."""
HEIGHT: Final = 150
_SCALE: Final = 2
"""Pixels of the picture for each of these, for the screens of phones."""
_FONT_SIZE: Final = 12 * _SCALE
_TOP, _BOTTOM, _LEFT, _RIGHT = (pixels * _SCALE for pixels in (26, 22, 8, 76))
_COLOURS: Final = 64
_PAPER, _INK, _AXIS = "#ffffff", "#333333", "#999999"
_LINE, _LIMIT, _OPEN = "#1f5fa8", "#c62828", "#fbdcdc"
_DAY_S: Final = 86_400.0
_HEADROOM: Final = 1.1


def draw(chart: Chart) -> bytes:
    """Draw a chart; return a PNG of WIDTH × HEIGHT at twice the resolution. Raises: ValueError for a chart
    without a length of time, or with more than MOST_POINTS points or bands.
    """
    if chart.end <= chart.begin:
        raise ValueError("the chart ends before it begins")
    if max(len(chart.points), len(chart.bands)) > MOST_POINTS:
        raise ValueError(f"the chart has more than {MOST_POINTS} points or bands")
    picture = Image.new("RGB", (WIDTH * _SCALE, HEIGHT * _SCALE), _PAPER)
    _Pen(chart, ImageDraw.Draw(picture)).draw()
    file = BytesIO()
    picture.quantize(_COLOURS).save(file, "PNG", optimize=True)
    return file.getvalue()


@cache
def _font() -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    return ImageFont.load_default(_FONT_SIZE)


class _Pen:
    def __init__(self, chart: Chart, pen: ImageDraw.ImageDraw) -> None:
        self._chart, self._pen = chart, pen
        self._left, self._right = _LEFT, WIDTH * _SCALE - _RIGHT
        self._top, self._bottom = _TOP, HEIGHT * _SCALE - _BOTTOM
        values = [point.value for point in chart.points if point.value is not None]
        self._greatest = max([*values, chart.limit or 0.0]) * _HEADROOM or 1.0

    def draw(self) -> None:
        self._write(self._left, 4 * _SCALE, self._chart.title)
        self._draw_bands()
        self._pen.line([(self._left, self._bottom), (self._right, self._bottom)], _AXIS, _SCALE)
        self._draw_line()
        self._draw_limit()
        self._draw_times()

    def _draw_bands(self) -> None:
        for band in self._chart.bands:
            begin, end = self._x(band.begin.timestamp()), self._x(band.end.timestamp())
            # A short one is seen, too.
            self._pen.rectangle((begin, self._top, max(end, begin + 2 * _SCALE), self._bottom), _OPEN)

    def _draw_line(self) -> None:
        for is_measured, run in groupby(self._chart.points, key=lambda point: point.value is not None):
            if is_measured:
                places = [self._place(point) for point in run]
                if len(places) == 1:  # between two gaps
                    x, y = places[0]
                    self._pen.ellipse((x - _SCALE, y - _SCALE, x + _SCALE, y + _SCALE), _LINE)
                else:
                    self._pen.line(places, _LINE, 2 * _SCALE, joint="curve")
        measured = [point for point in self._chart.points if point.value is not None]
        if measured:
            x, y = self._place(measured[-1])
            self._pen.ellipse((x - 3 * _SCALE, y - 3 * _SCALE, x + 3 * _SCALE, y + 3 * _SCALE), _LINE)
            text = format_measure(measured[-1].value or 0.0, self._chart.unit)
            self._write(self._right + 6 * _SCALE, self._keep_apart(y), text, _LINE)

    def _keep_apart(self, y: float) -> float:
        """Return the top of the last value's text: beside its place, and not upon the limit's."""
        top = y - _FONT_SIZE / 2
        if self._chart.limit is None:
            return top
        limit = self._y(self._chart.limit) - _FONT_SIZE / 2
        if abs(top - limit) >= _FONT_SIZE:
            return top
        return limit - _FONT_SIZE if top <= limit else limit + _FONT_SIZE

    def _draw_limit(self) -> None:
        if self._chart.limit is None:
            return
        y, dash = self._y(self._chart.limit), 6 * _SCALE
        for x in range(self._left, self._right, 2 * dash):
            self._pen.line([(x, y), (min(x + dash, self._right), y)], _LIMIT, _SCALE)
        text = f"limit {format_measure(self._chart.limit, self._chart.unit)}"
        self._write(self._right + 6 * _SCALE, y - _FONT_SIZE / 2, text, _LIMIT)

    def _draw_times(self) -> None:
        long = (self._chart.end - self._chart.begin).total_seconds() > _DAY_S
        form = "%Y-%m-%d %H:%M UTC" if long else "%H:%M UTC"
        y = self._bottom + 4 * _SCALE
        self._write(self._left, y, f"{self._chart.begin:{form}}")
        end = f"{self._chart.end:{form}}"
        self._write(self._right - self._pen.textlength(end, _font()), y, end)

    def _write(self, x: float, y: float, text: str, colour: str = _INK) -> None:
        self._pen.text((x, y), text, fill=colour, font=_font())

    def _place(self, point: Point) -> tuple[float, float]:
        return self._x(point.time.timestamp()), self._y(point.value or 0.0)

    def _x(self, time: float) -> float:
        begin, end = self._chart.begin.timestamp(), self._chart.end.timestamp()
        share = min(max((time - begin) / (end - begin), 0.0), 1.0)
        return self._left + share * (self._right - self._left)

    def _y(self, value: float) -> float:
        share = min(max(value / self._greatest, 0.0), 1.0)
        return self._bottom - share * (self._bottom - self._top)
