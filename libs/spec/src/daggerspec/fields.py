"""The fields that things have in common: names, texts, durations, URLs, references to secrets.

Each check yields violations of fields at or below `path`, for example cluster.kafka.bootstrap_servers: all of
them at once.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from datetime import timedelta
from typing import Final
from urllib.parse import SplitResult, urlsplit

from daggers.v1 import spec_pb2
from google.protobuf.duration_pb2 import Duration

from daggerspec.violation import Violation

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{1,61}[a-z0-9]")
_TABLE: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
_GROUP: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")
REFERENCE: Final = re.compile(r"(?!.*\.\.)[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
"""Name of a reference table: no path of it leads anywhere."""
_HOST_PORT: Final = re.compile(r"(\[[0-9a-fA-F:.]+\]|[A-Za-z0-9._-]{1,253}):(\d{1,5})")
_SHORT_NAME: Final = re.compile(r"[a-z](?:[a-z0-9_-]{0,61}[a-z0-9])?")
_ENV_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,127}")
# What is read there is no secret of anybody's: the environment of a process, a device without an end.
_NO_FILES: Final = ("/proc", "/dev", "/sys")
MAX_DURATION: Final = timedelta(days=31)


def name(path: str, value: str) -> Iterator[Violation]:
    """Name of what is registered, but for teams: of a dagger, cluster or stream."""
    if not _NAME.fullmatch(value):
        yield _unlike_a_name(path, 3)


def short_name(path: str, value: str) -> Iterator[Violation]:
    """Name of what people call in short, such as a sink within its dagger: db is one."""
    if not _SHORT_NAME.fullmatch(value):
        yield _unlike_a_name(path, 1)


def team(path: str, value: str) -> Iterator[Violation]:
    """Name of a team that is registered, or that something is registered for: hr is one.

    A dagger may be of a team that nobody registered, called anything: there were daggers before teams.
    """
    yield from short_name(path, value)


def _unlike_a_name(path: str, least: int) -> Violation:
    form = f"{least} to 63 of a-z, 0-9, _ and -, begin with a letter and end with a letter or digit"
    return Violation(path, f"must be {form}", "INVALID_NAME")


def table(path: str, value: str) -> Iterator[Violation]:
    """Name of a table in a query."""
    if not _TABLE.fullmatch(value):
        yield Violation(path, "must be a letter or _, then letters, digits and _", "INVALID_NAME")


def reference(path: str, value: str) -> Iterator[Violation]:
    """Name of a reference table."""
    if not REFERENCE.fullmatch(value):
        text = (
            "must be 1 to 128 of A-Z, a-z, 0-9, '.', '_' and '-', begin with a letter or digit, have no two"
            " dots together"
        )
        yield Violation(path, text, "INVALID_NAME")


def group(path: str, value: str) -> Iterator[Violation]:
    """Name of a consumer group."""
    if not _GROUP.fullmatch(value):
        yield Violation(path, "must be 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'", "INVALID_GROUP")


def topic(path: str, value: str) -> Iterator[Violation]:
    """Name of a Kafka topic."""
    if not _TOPIC.fullmatch(value) or value in (".", ".."):
        yield Violation(path, "must be 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-'", "INVALID_TOPIC")


def text(path: str, value: str, *, limit: int) -> Iterator[Violation]:
    """Check a line of text for people, of at most `limit` characters."""
    if len(value) > limit:
        yield Violation(path, f"must not be longer than {limit} characters", "TOO_LONG")
    if not value.isprintable():
        yield Violation(path, "must be one line of printable characters", "INVALID_CHARACTER")


def duration(path: str, value: Duration, *, positive: bool = False) -> Iterator[Violation]:
    """Check a duration, which must not be negative, nor zero if it must be `positive`."""
    # Written by hand: ToTimedelta raises for what is out of range, and rounds.
    nanos = value.seconds * 1_000_000_000 + value.nanos
    if abs(value.nanos) > 999_999_999 or value.seconds * value.nanos < 0:
        yield Violation(path, "is not a valid duration", "INVALID_DURATION")
    elif nanos < 0:
        yield Violation(path, "must not be negative", "OUT_OF_RANGE")
    elif positive and nanos == 0:
        yield Violation(path, "must be longer than 0 s", "OUT_OF_RANGE")
    elif nanos > MAX_DURATION.total_seconds() * 1_000_000_000:
        yield Violation(path, f"must not be longer than {MAX_DURATION.days} days", "OUT_OF_RANGE")


def secret(path: str, value: spec_pb2.SecretRef) -> Iterator[Violation]:
    """Check a reference to a secret; the secret itself is never read."""
    match value.WhichOneof("source"):
        case "env" if not _ENV_NAME.fullmatch(value.env):
            yield Violation(f"{path}.env", "must be the name of an environment variable", "INVALID_REFERENCE")
        case "file" if not value.file.startswith("/") or not value.file.isprintable():
            yield Violation(f"{path}.file", "must be an absolute path", "INVALID_REFERENCE")
        case "file" if is_no_file(value.file):
            text = f"must be a file, which nothing below {', '.join(_NO_FILES)} is"
            yield Violation(f"{path}.file", text, "INVALID_REFERENCE")
        case "name":
            yield from name(f"{path}.name", value.name)
        case None:
            text = "must name a registered secret, an environment variable (env) or a file (file)"
            yield Violation(path, text, "REQUIRED")


def is_no_file(path: str) -> bool:
    """Return whether a path leads to where no file of secrets is."""
    path = "/" + posixpath.normpath(path).lstrip("/")
    return any(path == root or path.startswith(f"{root}/") for root in _NO_FILES)


def parse_http(value: str) -> SplitResult | None:
    """Parse an http(s) URL; None for what is none."""
    try:
        parts = urlsplit(value)
        is_good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        return None
    return parts if is_good and value.isprintable() and " " not in value else None


def url(path: str, value: str) -> Iterator[Violation]:
    """Check an http(s) base URL, which has no credentials."""
    parts = parse_http(value)
    if parts is None:
        yield Violation(path, "must be a URL such as http://127.0.0.1:8086", "INVALID_URL")
    elif parts.username is not None or parts.password is not None:
        yield Violation(
            path, "must not hold credentials: give the token by reference, {env: NAME}", "INLINE_SECRET"
        )
    elif parts.query or parts.fragment:
        yield Violation(path, "must be a base URL, without ? and #", "INVALID_URL")


def is_host_port(value: str) -> bool:
    """Return whether a text is host:port."""
    match = _HOST_PORT.fullmatch(value)
    return match is not None and 0 < int(match[2]) <= 65535
