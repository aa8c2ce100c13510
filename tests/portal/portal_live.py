"""Helpers of test_portal_live.py and of its neighbours."""

from __future__ import annotations

from daggers.v1 import output_pb2
from google.protobuf.timestamp_pb2 import Timestamp

WINDOW_S, DAY_S = 60, 86_400
ENVELOPE = 5


def row(second: float, orders: int, city: str = "Jakarta") -> output_pb2.Row:
    """Build a row of a window."""
    number = output_pb2.RowField(name="orders", integer=orders)
    return output_pb2.Row(time=Timestamp(seconds=int(second)), tags={"city": city}, fields=[number])
