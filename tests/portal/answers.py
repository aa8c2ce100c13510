"""Answers of a gateway that a browser gets in place of its own: what is rare, slow or much."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Sequence

from daggers.v1 import dagger_pb2, gateway_pb2
from google.protobuf.message import Message
from playwright.sync_api import Page, Route


def answer(route: Route, steps: Sequence[Message], unavailable: str = "") -> None:
    """Answer a stream of Connect's: an envelope for each message, and the last one.

    unavailable: the message of the error that the stream ends with; empty for a stream that ends well.
    """
    end = {"error": {"code": "unavailable", "message": unavailable}} if unavailable else {}
    envelopes = [(0, step.SerializeToString()) for step in steps] + [(2, json.dumps(end).encode())]
    body = b"".join(struct.pack(">BI", flags, len(data)) + data for flags, data in envelopes)
    route.fulfill(status=200, body=body, content_type="application/connect+proto")


def answer_once(route: Route, message: Message) -> None:
    """Answer a call that has one answer."""
    route.fulfill(status=200, body=message.SerializeToString(), content_type="application/proto")


def list_daggers(page: Page, daggers: Sequence[dagger_pb2.Dagger]) -> None:
    """Answer these daggers to whoever lists them; their vitals come as they do."""
    listed = gateway_pb2.ListDaggersResponse(daggers=daggers, total_size=len(daggers), sequence=7)
    page.route(re.compile("DaggerService/ListDaggers"), lambda route: answer_once(route, listed))
