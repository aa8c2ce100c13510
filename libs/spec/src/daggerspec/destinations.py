"""Addresses that sinks depend on: their servers, those their secrets are sent to, and their folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from daggers.v1 import spec_pb2

from daggerspec.sinks import kind_of, value_keys


def reached_at(sink: spec_pb2.Sink) -> tuple[str, str]:
    """Return the address of a sink, a URL or host:port, and the path of its field; two empty texts if it
    has no address of its own. Its secret is sent there.
    """
    name = kind_of(sink)
    key = next((key for key in value_keys(name) if key.sent_to), None) if name else None
    if key is None:
        return "", ""
    own = getattr(sink, name or "")
    return f"{name}.{key.sent_to[0]}", key.destination(own) if key.is_addressed(own) else ""


def secrets_sent(sink: spec_pb2.Sink) -> Iterator[tuple[str, spec_pb2.SecretRef, str]]:
    """Yield the secrets of a resolved sink: the field of the address it is sent to, the reference, and the
    address; of a certificate's key the address of the server that is shown the certificate.
    """
    name = kind_of(sink)
    if name is None:
        return
    own = getattr(sink, name)
    for key in value_keys(name):
        if key.sent_to and key.said(own):
            to = key.destination(own) if key.is_addressed(own) else ""
            yield f"{name}.{key.sent_to[0]}", key.value(own), to


def servers(sink: spec_pb2.Sink) -> Mapping[str, str]:
    """Return every server that a resolved sink connects to, by the path of its field: for its rows, and for
    its secrets.
    """
    field, where = reached_at(sink)
    secret_servers = {path: to for path, _, to in secrets_sent(sink) if to}
    return {field: where, **secret_servers} if where else secret_servers


def written_below(sink: spec_pb2.Sink) -> tuple[str, str] | None:
    """Return the path of the field and the folder on the drivers' hosts that a sink writes below; None if it
    writes no files.
    """
    name = kind_of(sink)
    key = next((key for key in value_keys(name) if key.folder), None) if name else None
    return (f"{name}.{key.field}", str(key.value(getattr(sink, name or "")))) if key else None
