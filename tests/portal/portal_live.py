"""Helpers of test_portal_live.py and of its neighbours."""

from __future__ import annotations

import re
import time

from daggers.v1 import output_pb2
from google.protobuf.timestamp_pb2 import Timestamp
from playwright.sync_api import Page, Route
from tests.portal.answers import answer

WINDOW_S, DAY_S = 60, 86_400
ENVELOPE = 5


def row(second: float, orders: int, city: str = "Jakarta") -> output_pb2.Row:
    """Build a row of a window."""
    number = output_pb2.RowField(name="orders", integer=orders)
    return output_pb2.Row(time=Timestamp(seconds=int(second)), tags={"city": city}, fields=[number])


def serve_rows(page: Page, asked: list[output_pb2.ReadRowsRequest]) -> None:
    """Answer rows of the last minutes, and of the same minutes a day before to who asks for these."""

    def rows(route: Route) -> None:
        body = route.request.post_data_buffer
        assert body is not None
        request = output_pb2.ReadRowsRequest.FromString(body[ENVELOPE:])
        asked.append(request)
        end = time.time() // WINDOW_S * WINDOW_S - (DAY_S if request.where else 0)
        made = [row(end - WINDOW_S * number, 10 + number) for number in range(1, 6)]
        answer(route, [output_pb2.ReadRowsResponse(rows=made)])

    page.route(re.compile("DaggerService/ReadRows"), rows)
