"""Answers of a gateway that a browser gets in place of its own: what is rare, slow or much."""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence

from google.protobuf.message import Message
from playwright.sync_api import Route


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
