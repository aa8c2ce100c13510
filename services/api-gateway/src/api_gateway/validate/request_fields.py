"""Check fields that many requests have: ids, versions, sizes. Pure.

Each check yields violations whose paths begin with `path`. Checks of resources are in `daggerspec`; checks
that need the state (does this stream exist?) are in `spec_check` and `schemas`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from google.protobuf.timestamp_pb2 import Timestamp

from daggerspec.violation import Violation

MAX_EVENT_BYTES: Final = 512 * 1024
MAX_MESSAGE: Final = 1_000
_PLAIN: Final = re.compile(r"[\x21-\x7e]{1,128}")


def request_id(path: str, value: str) -> Iterator[Violation]:
    """Check the id of a request; empty lets the server create one."""
    if value and not _PLAIN.fullmatch(value):
        yield Violation(path, "must be 1 to 128 ASCII characters without spaces", "INVALID_REQUEST_ID")


def version(path: str, value: int) -> Iterator[Violation]:
    """Check an expected version."""
    if value < 0:
        yield Violation(path, "must not be negative", "OUT_OF_RANGE")


def sequence(path: str, value: int) -> Iterator[Violation]:
    """Check a minimum sequence."""
    if value < 0:
        yield Violation(path, "must not be negative", "OUT_OF_RANGE")


def instant(path: str, value: Timestamp) -> Iterator[Violation]:
    """Check that an instant is in the range of Python's datetime."""
    try:
        value.ToDatetime()
    except (ValueError, OverflowError):
        yield Violation(path, "must be an instant from year 1 to 9999", "OUT_OF_RANGE")


def page_size(path: str, value: int) -> Iterator[Violation]:
    """Check the size of a page."""
    if value < 0:
        yield Violation(path, "must not be negative", "OUT_OF_RANGE")


def message(path: str, value: str) -> Iterator[Violation]:
    """Check the text by which a caller explains a request."""
    if len(value) > MAX_MESSAGE:
        text = f"has {len(value)} characters; at most {MAX_MESSAGE} say why"
        limits = {"size": str(len(value)), "limit": str(MAX_MESSAGE)}
        yield Violation(path, text, "TOO_LARGE", metadata=limits)


def event_size(path: str, size: int) -> Iterator[Violation]:
    """Check the size of a request's event, in bytes."""
    if size > MAX_EVENT_BYTES:
        text = f"makes an event of {size} bytes; the log takes at most {MAX_EVENT_BYTES}"
        limits = {"size": str(size), "limit": str(MAX_EVENT_BYTES)}
        yield Violation(path, text, "TOO_LARGE", metadata=limits)
