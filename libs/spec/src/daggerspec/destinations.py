"""Where sinks are reached: their servers, those that their secrets are sent to, and their folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from daggers.v1 import spec_pb2

from daggerspec.sinks import kind_of, value_keys


def reached_at(sink: spec_pb2.Sink) -> tuple[str, str]:
    """Where a sink is reached, a URL or host:port, and the path of the field that says it; empty where it has
    no address of its own. It is where its secret is sent.
    """
    name = kind_of(sink)
    key = next((key for key in value_keys(name) if key.sent_to), None) if name else None
    if key is None:
        return "", ""
    own = getattr(sink, name or "")
    return f"{name}.{key.sent_to[0]}", key.destination(own) if key.is_addressed(own) else ""


def secrets_sent(sink: spec_pb2.Sink) -> Iterator[tuple[str, spec_pb2.SecretRef, str]]:
    """The secrets that a resolved sink refers to: the field of the address it is sent to, the reference, and
    the address; of a key of a certificate that of the server that is shown the certificate.
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
    """Every server that a resolved sink asks, by the path of the field that says it: where rows go, and where
    its secrets do.
    """
    field, where = reached_at(sink)
    asked = {path: to for path, _, to in secrets_sent(sink) if to}
    return {field: where, **asked} if where else asked


def written_below(sink: spec_pb2.Sink) -> tuple[str, str] | None:
    """The folder of the drivers' hosts that a sink writes below, behind the path of the field that says it;
    None where it writes no files.
    """
    name = kind_of(sink)
    key = next((key for key in value_keys(name) if key.folder), None) if name else None
    return (f"{name}.{key.field}", str(key.value(getattr(sink, name or "")))) if key else None
