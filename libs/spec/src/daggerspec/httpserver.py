"""Fields that sinks have for a server of HTTP or gRPC: address, authentication, TLS and timeout."""

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
    """Build the key of the caller's authentication, by a `header`; `to` is the field with the address."""
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
            Key(
                "oauth2",
                "A token that the sink asks for itself, by client credentials, and anew before it ends.",
                keys=(
                    Key("token_url", "Where tokens are asked for.", required=True, address=True),
                    Key("client_id", "Who asks.", required=True, address=True),
                    Key(
                        "client_secret",
                        "Where its secret is, which goes to token_url alone.",
                        required=True,
                        address=True,
                        sent_to=("auth.oauth2.token_url",),
                    ),
                    Key("scopes", "What the token is to allow.", address=True),
                    Key("audience", "Whom the token is for, where token_url asks that.", address=True),
                    Key(
                        "ca_file",
                        "A file with the certificates that sign token_url's; without it the system's.",
                        address=True,
                    ),
                ),
            ),
        ),
    )


def tls_keys(to: str) -> Key:
    """Build the key of the TLS handshake beside `ca_file`; `to` is the field with the address."""
    return Key(
        "tls",
        "A certificate of who calls, and the name of the server's own.",
        "client_tls",
        keys=(
            Key(
                "client_certificate_file",
                "A file with the certificate that the server is shown, and those that sign it.",
                address=True,
            ),
            Key(
                "client_key",
                "Where its private key is, PEM without a passphrase; it is sent nowhere.",
                address=True,
                sent_to=(to,),
            ),
            Key(
                "server_name",
                "Name that the server's certificate is to have; without it that of its address.",
                address=True,
            ),
        ),
    )


AUTH: Final = auth_keys("A header", "url")
TLS: Final = tls_keys("url")
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
_CERTIFICATE: Final = "client_certificate_file"
_KEY: Final = "client_key"
_HANDSHAKE: Final = (_CERTIFICATE, _KEY, "server_name")
_HOST_NAME: Final = re.compile(r"[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")
_PRINTABLE: Final = re.compile(r"[\x20-\x7e]{1,1000}")
_SCOPE: Final = re.compile(r"[\x21\x23-\x5b\x5d-\x7e]{1,200}")
"""A scope-token of RFC 6749."""
_OWN: Final = frozenset(
    {"ce-id", "connection", "content-length", "expect", "host", "idempotency-key", "te", "trailer"}
    | {"transfer-encoding", "upgrade"}
)
"""Headers that a sink says itself, or that are about the connection."""


def violations(path: str, sink: spec_pb2.HttpSink | spec_pb2.ElasticsearchSink) -> Iterator[Violation]:
    """Yield the violations of URL, authentication, TLS and timeout."""
    yield from fields.url(f"{path}.url", sink.url)
    yield from caller(path, sink, is_plain=sink.url.startswith("http:"))
    yield from check_timeout(f"{path}.timeout", sink.timeout)


def caller(
    path: str, sink: spec_pb2.HttpSink | spec_pb2.ElasticsearchSink | spec_pb2.GrpcSink, *, is_plain: bool
) -> Iterator[Violation]:
    """Yield the violations of authentication and TLS; `is_plain`: nothing is encrypted."""
    yield from _auth(f"{path}.auth", sink.auth)
    yield from _file(f"{path}.tls.ca_file", sink.tls.ca_file)
    yield from _handshake(f"{path}.client_tls", sink.client_tls, is_plain=is_plain)


def check_timeout(path: str, timeout: Duration) -> Iterator[Violation]:
    """Check the timeout of a request: positive, at most LONGEST_TIMEOUT."""
    wrong = list(fields.duration(path, timeout, positive=True))
    yield from wrong
    if not wrong and timeout.ToTimedelta() > LONGEST_TIMEOUT:
        problem = f"must not be longer than {LONGEST_TIMEOUT.seconds} s: a batch waits for it"
        yield Violation(path, problem, "OUT_OF_RANGE")


def header(path: str, name: str) -> Iterator[Violation]:
    """Check the name of a header."""
    if not _NAME.fullmatch(name):
        yield Violation(path, "must be the name of a header", "INVALID_NAME")
    elif name.lower() in _OWN:
        yield Violation(path, f"{name} is said by the sink itself", "UNEXPECTED")


def _file(path: str, message: str) -> Iterator[Violation]:
    if message and not message.startswith("/"):
        yield Violation(path, "must be an absolute path", "INVALID_REFERENCE")


def _handshake(path: str, message: spec_pb2.ClientTls, *, is_plain: bool) -> Iterator[Violation]:
    """Yield the violations of certificate, key and server name of a handshake."""
    own = [name for name in _HANDSHAKE if Key(name, "").said(message)]
    if is_plain:
        for name in own:
            yield Violation(f"{path}.{name}", "is about TLS, and nothing is encrypted here", "UNEXPECTED")
        return
    yield from _file(f"{path}.{_CERTIFICATE}", message.client_certificate_file)
    if (_CERTIFICATE in own) != (_KEY in own):
        missing, other = (_KEY, _CERTIFICATE) if _CERTIFICATE in own else (_CERTIFICATE, _KEY)
        yield Violation(f"{path}.{missing}", f"is required, as {other} is said", "REQUIRED")
    if _KEY in own:
        yield from fields.secret(f"{path}.{_KEY}", message.client_key)
    if message.server_name and not _HOST_NAME.fullmatch(message.server_name):
        yield Violation(f"{path}.server_name", "must be the name of a host", "INVALID_NAME")


def _oauth2(path: str, message: spec_pb2.HttpAuth.OAuth2) -> Iterator[Violation]:
    yield from fields.url(f"{path}.token_url", message.token_url)
    if not _PRINTABLE.fullmatch(message.client_id):
        yield Violation(f"{path}.client_id", "must be printable ASCII characters", "INVALID_CHARACTER")
    yield from fields.secret(f"{path}.client_secret", message.client_secret)
    for number, scope in enumerate(message.scopes):
        if not _SCOPE.fullmatch(scope):
            problem = "must be one scope: ASCII characters without spaces and quotation marks"
            yield Violation(f"{path}.scopes[{number}]", problem, "INVALID_CHARACTER")
    if message.audience and not _PRINTABLE.fullmatch(message.audience):
        yield Violation(f"{path}.audience", "must be printable ASCII characters", "INVALID_CHARACTER")
    yield from _file(f"{path}.ca_file", message.ca_file)


def _auth(path: str, message: spec_pb2.HttpAuth) -> Iterator[Violation]:
    kinds = [kind for kind in ("bearer", "basic", "header", "oauth2") if message.HasField(kind)]
    if len(kinds) > 1:
        yield Violation(path, f"says {' and '.join(kinds)}: one of them is enough", "UNEXPECTED")
    if message.HasField("bearer"):
        yield from fields.secret(f"{path}.bearer", message.bearer)
    if message.HasField("basic"):
        if not message.basic.user or ":" in message.basic.user or not message.basic.user.isprintable():
            problem = "must be printable characters, without a colon"
            yield Violation(f"{path}.basic.user", problem, "INVALID_CHARACTER")
        yield from fields.secret(f"{path}.basic.password", message.basic.password)
    if message.HasField("header"):
        yield from header(f"{path}.header.name", message.header.name)
        yield from fields.secret(f"{path}.header.value", message.header.value)
    if message.HasField("oauth2"):
        yield from _oauth2(f"{path}.oauth2", message.oauth2)
