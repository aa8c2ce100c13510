"""Answers of a gateway that a browser gets in place of its own: what is rare, slow or much."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from google.protobuf.message import Message
from playwright.sync_api import Route


def answer(route: Route, steps: Sequence[Message]) -> None:
    """Answer a stream of Connect's: an envelope for each message, and the last one."""
    told = [(0, step.SerializeToString()) for step in steps] + [(2, b"{}")]
    body = b"".join(struct.pack(">BI", flags, len(data)) + data for flags, data in told)
    route.fulfill(status=200, body=body, content_type="application/connect+proto")


def answer_once(route: Route, message: Message) -> None:
    """Answer a call that has one answer."""
    route.fulfill(status=200, body=message.SerializeToString(), content_type="application/proto")
