"""What sinks say of a server, of HTTP or gRPC: its address, what shows it who calls, how it is known."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Final

from daggers.v1 import spec_pb2
from google.protobuf.duration_pb2 import Duration

from daggerspec import fields
from daggerspec.keys import Key
from daggerspec.violation import Violation

LONGEST_TIMEOUT: Final = timedelta(seconds=60)


def auth_keys(header: str, to: str) -> Key:
    """What shows a server who calls, by a `header`, as people know it; `to` is the field with its address."""
    secret = partial(Key, address=True, sent_to=(to,))
    return Key(
        "auth",
        "What shows the server who calls; one of the following.",
        keys=(
            secret("bearer", "Where the token is, for Authorization: Bearer."),
            Key(
                "basic",
                "A user and a password.",
                keys=(
                    Key("user", "The user.", required=True, address=True),
                    secret("password", "Where the password is.", required=True),
                ),
            ),
            Key(
                "header",
                f"{header} of the server's own.",
                keys=(
                    Key("name", "Its name, for example X-Api-Key.", required=True, address=True),
                    secret("value", "Where its value is.", required=True),
                ),
            ),
        ),
    )


AUTH: Final = auth_keys("A header", "url")
CA_FILE: Final = Key(
    "ca_file",
    "A file with the certificates that sign the server's; without it the system's.",
    "tls.ca_file",
    address=True,
)
SECRET: Final = re.compile(
    r"authorization|proxy-authorization|cookie|.*(api|access|auth)[-_]?key|.*(secret|password|passcode|token)|key|sig",
    re.IGNORECASE,
)
"""Names under which secrets go."""
_NAME: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,100}")
_OWN: Final = frozenset(
    {"ce-id", "connection", "content-length", "expect", "host", "idempotency-key", "te", "trailer"}
    | {"transfer-encoding", "upgrade"}
)
"""Headers that a sink says itself, or that are about the connection."""


def violations(
    path: str, url: str, auth: spec_pb2.HttpAuth, tls: spec_pb2.Tls, timeout: Duration
) -> Iterator[Violation]:
    """What is wrong with them."""
    yield from fields.url(f"{path}.url", url)
    yield from caller(path, auth, tls)
    yield from waited(f"{path}.timeout", timeout)


def caller(path: str, auth: spec_pb2.HttpAuth, tls: spec_pb2.Tls) -> Iterator[Violation]:
    """What a server is shown of who calls, and how it is known."""
    yield from _auth(f"{path}.auth", auth)
    if tls.ca_file and not tls.ca_file.startswith("/"):
        yield Violation(f"{path}.tls.ca_file", "must be an absolute path", "INVALID_REFERENCE")


def waited(path: str, timeout: Duration) -> Iterator[Violation]:
    """How long a request may take."""
    wrong = list(fields.duration(path, timeout, positive=True))
    yield from wrong
    if not wrong and timeout.ToTimedelta() > LONGEST_TIMEOUT:
        what = f"must not be longer than {LONGEST_TIMEOUT.seconds} s: a batch waits for it"
        yield Violation(path, what, "OUT_OF_RANGE")


def header(path: str, name: str) -> Iterator[Violation]:
    """The name of a header."""
    if not _NAME.fullmatch(name):
        yield Violation(path, "must be the name of a header", "INVALID_NAME")
    elif name.lower() in _OWN:
        yield Violation(path, f"{name} is said by the sink itself", "UNEXPECTED")


def _auth(path: str, said: spec_pb2.HttpAuth) -> Iterator[Violation]:
    kinds = [kind for kind in ("bearer", "basic", "header") if said.HasField(kind)]
    if len(kinds) > 1:
        yield Violation(path, f"says {' and '.join(kinds)}: one of them is enough", "UNEXPECTED")
    if said.HasField("bearer"):
        yield from fields.secret(f"{path}.bearer", said.bearer)
    if said.HasField("basic"):
        if not said.basic.user or ":" in said.basic.user or not said.basic.user.isprintable():
            what = "must be printable characters, without a colon"
            yield Violation(f"{path}.basic.user", what, "INVALID_CHARACTER")
        yield from fields.secret(f"{path}.basic.password", said.basic.password)
    if said.HasField("header"):
        yield from header(f"{path}.header.name", said.header.name)
        yield from fields.secret(f"{path}.header.value", said.header.value)
