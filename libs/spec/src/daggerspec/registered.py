"""Registered sinks: an address and its secrets, under one name, for the daggers of some teams.

A dagger's sink names one of its own kind, and says itself what is not about where it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from daggers.v1 import spec_pb2

from daggerspec import fields
from daggerspec.catalogue import Catalogue
from daggerspec.keys import Key, flat
from daggerspec.limits import MAX_IN_FLIGHT, MAX_RATE
from daggerspec.secrets import wrong_use
from daggerspec.violation import Violation, unregistered_name

MAX_TEAMS: Final = 100


def addresses(keys: Sequence[Key]) -> list[Key]:
    """List the keys of a kind that are a sink's address."""
    return [key for key in flat(keys) if key.address]


def where(keys: Sequence[Key]) -> list[Key]:
    """List the keys of the address as a file has them: those of mappings in their mapping."""
    return [key for key in keys if key.address or any(where(key.keys))]


def take(
    path: str, sink: spec_pb2.Sink, kind: str, keys: Sequence[Key], team: str, catalogue: Catalogue
) -> Iterator[Violation]:
    """Have a sink say what the registered one says that it names; tells why it may not."""
    registration = catalogue.sink(sink.registered)
    if registration is None:
        yield unregistered_name(f"{path}.registered", "sink", sink.registered)
        return
    about = {"name": registration.name, "team": team}
    if registration.teams and team not in registration.teams:
        text = (
            f"sink {registration.name} is not for team {team}: "
            f"an owner of it can register it for that team, too"
        )
        yield Violation(f"{path}.registered", text, "SINK_FORBIDDEN", metadata=about)
        return
    other = registration.sink.WhichOneof("kind")
    if other != kind:
        text = f"sink {registration.name} is of the kind {other}, not {kind}"
        yield Violation(
            f"{path}.registered", text, "WRONG_KIND", metadata={**about, "kind_of_sink": str(other)}
        )
        return
    own, theirs = getattr(sink, kind), getattr(of_team(registration, team, keys), kind)
    for key in addresses(keys):
        if not key.said(theirs):
            continue
        if key.said(own):
            text = f"is said by the registered sink {registration.name}: leave it out"
            yield Violation(f"{path}.{kind}.{key.field}", text, "UNEXPECTED")
        key.take(own, theirs)


def of_team(registration: spec_pb2.RegisteredSink, team: str, keys: Sequence[Key]) -> spec_pb2.Sink:
    """Return where the daggers of a team write by a registered sink: its address, with the team's parts."""
    kind = registration.sink.WhichOneof("kind") or ""
    address = spec_pb2.Sink.FromString(registration.sink.SerializeToString())
    for parts in (own.sink for own in registration.by_team if own.team == team):
        for key in addresses(keys):
            if key.said(getattr(parts, kind)):
                key.take(getattr(address, kind), getattr(parts, kind))
    return address


def secrets(
    path: str, own: Any, whole: Any, keys: Sequence[Key], team: str, catalogue: Catalogue
) -> Iterator[Violation]:
    """Yield the violations of a sink's secrets. `own` is its message in its dagger's spec, `whole` with its
    address filled in; `keys` are those that take values; `path` is that of the message.
    """
    for key in keys:
        if not key.sent_to or not key.said(whole):
            continue
        reference, to = key.value(whole), key.destination(whole)
        where = f"{path}.{key.field}"
        wrong = list(wrong_use(where, reference, to, catalogue.secret))
        secret = catalogue.secret(reference.name) if reference.name else None
        if not wrong and secret is not None and key.said(own) and secret.team != team:
            wrong = [forbidden(where, secret, f"daggers of team {team}")]
        yield from wrong


def forbidden(path: str, secret: spec_pb2.Secret, whom: str) -> Violation:
    """Build the violation of a secret that belongs to another team."""
    whose = f"team {secret.team}'s" if secret.team else "the platform's"
    text = f"secret {secret.name} is {whose}, and not for {whom}"
    return Violation(path, text, "SECRET_FORBIDDEN", metadata={"name": secret.name, "team": secret.team})


def own_secrets(own: Any, whole: Any, keys: Sequence[Key]) -> Iterator[tuple[Key, spec_pb2.SecretRef, str]]:
    """Yield the references that a dagger's sink sets itself, each with its key and the address it is sent to.

    `keys` are those that take values.
    """
    for key in keys:
        if key.sent_to and key.said(own):
            yield key, key.value(own), key.destination(whole)


def plain(path: str, value: spec_pb2.RegisteredSink) -> Iterator[Violation]:
    """Yield the violations of a sink that is to be registered, beside its address."""
    yield from fields.name(f"{path}.name", value.name)
    for field in ("teams", "by_team"):
        if len(getattr(value, field)) > MAX_TEAMS:
            yield Violation(f"{path}.{field}", f"must not be more than {MAX_TEAMS}", "TOO_MANY")
    for number, team in enumerate(value.teams):
        yield from fields.team(f"{path}.teams[{number}]", team)
        if team in value.teams[:number]:
            yield Violation(f"{path}.teams[{number}]", f"{team} is named twice", "DUPLICATE")
    yield from _fields_of_daggers(f"{path}.sink", value.sink)


def _fields_of_daggers(path: str, sink: spec_pb2.Sink) -> Iterator[Violation]:
    """Yield the fields of a registered address that only the sink of a dagger has."""
    set_fields = {field.name for field, _ in sink.ListFields()}
    for name in ("name", "registered", "when", "limit", "on_outage", "max_refused"):
        if name in set_fields:
            yield Violation(f"{path}.{name}", "is said by daggers", "UNEXPECTED")


def by_team(path: str, value: spec_pb2.RegisteredSink, keys: Sequence[Key]) -> Iterator[Violation]:
    """Yield what is wrong with the parts of its address that a sink to be registered has for teams."""
    kind, parts = value.sink.WhichOneof("kind") or "", addresses(keys)
    teams = [address.team for address in value.by_team]
    for number, address in enumerate(value.by_team):
        where = f"{path}[{number}]"
        yield from fields.team(f"{where}.team", address.team)
        if address.team in teams[:number]:
            yield Violation(f"{where}.team", f"{address.team} is named twice", "DUPLICATE")
        if value.teams and address.team not in value.teams:
            text = f"{address.team} is not one of the sink's teams: {', '.join(value.teams)}"
            yield Violation(f"{where}.team", text, "UNEXPECTED")
        yield from _fields_of_daggers(f"{where}.sink", address.sink)
        own = address.sink.WhichOneof("kind")
        if own != kind:
            yield Violation(f"{where}.sink", f"must be of the sink's kind, {kind}", "WRONG_KIND")
            continue
        for key in flat(keys):
            if key not in parts and key.said(getattr(address.sink, kind)):
                text = f"is said by daggers; here stand {', '.join(part.name for part in parts)}"
                yield Violation(f"{where}.sink.{kind}.{key.field}", text, "UNEXPECTED")


def limits(path: str, kind: str, limit: spec_pb2.RateLimit, enforced: Sequence[str]) -> Iterator[Violation]:
    """Yield the violations of rate limits. A limit that the kind does not enforce is refused, so that nobody
    relies on it.
    """
    for field, most in limit.ListFields():
        bound = MAX_IN_FLIGHT if field.name == "max_in_flight" else MAX_RATE
        if not 0 <= most <= bound:  # as it does where it is no number at all
            yield Violation(
                f"{path}.{field.name}", f"must be a number from 0 to {bound:,.0f}", "OUT_OF_RANGE"
            )
        if field.name not in enforced:
            text = f"{field.name} is not kept by a {kind} sink, which keeps {', '.join(enforced) or 'none'}"
            yield Violation(f"{path}.{field.name}", text, "LIMIT_NOT_KEPT")


def address(path: str, kind: str, sink: Any, keys: Sequence[Key]) -> Iterator[Violation]:
    """Yield the violations of a sink that sets anything but its address; `path` is that of its message."""
    address_keys = addresses(keys)
    if not address_keys:
        yield Violation(path, f"a {kind} sink has no address: there is nothing to register", "NO_ADDRESS")
        return
    if not address_keys[0].said(sink):
        text = "is required: where the sink is"
        yield Violation(f"{path}.{address_keys[0].field}", text, "REQUIRED")
    for key in flat(keys):
        if not key.address and key.said(sink):
            text = f"is said by daggers; here stand {', '.join(key.name for key in address_keys)}"
            yield Violation(f"{path}.{key.field}", text, "UNEXPECTED")
        if key.sent_to and key.said(sink) and not key.value(sink).name:
            text = "must be the name of a registered secret"
            yield Violation(f"{path}.{key.field}", text, "UNREGISTERED_SECRET")
