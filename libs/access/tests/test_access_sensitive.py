"""Sensitive fields: who sees them, and who may have them written."""

from __future__ import annotations

from typing import Any

import pytest
from daggers.v1 import access_pb2, events_pb2, spec_pb2

from access import Principal
from access.sensitive import Made, may_write, sees, touched, unseen
from daggerspec.columns import Column, Role
from eventlog.testing import given
from fleet import Fleet

META = events_pb2.RequestMeta(actor="root")
ADA, BOB = Principal("user:ada"), Principal("user:bob")
STAFF = Principal("user:eve", frozenset({"group:staff"}))
ROOT = Principal("root", administrator=True)
SPEC = spec_pb2.DaggerSpec(team="pricing", streams=[{"table": "t", "stream": "bookings"}])
STREAM = spec_pb2.Stream(name="bookings", sensitive=["customer.email", "phone"], time_field="event_time")


def folded(*events: Any) -> Fleet:
    fleet = Fleet()
    for record in given(*events):
        fleet.apply(record)
    return fleet


def registered(*granted: str, stream: spec_pb2.Stream = STREAM) -> Fleet:
    grant = access_pb2.StreamGrant(stream=stream.name, read_sensitive=granted)
    return folded(
        events_pb2.StreamRegistered(meta=META, stream=stream), events_pb2.GrantChanged(meta=META, grant=grant)
    )


def made(*paths: str, keys: tuple[str, ...] = ()) -> Made:
    """Rows with a column for each path."""
    columns = [Column(path, Role.FIELD, path, "string") for path in paths]
    return Made(columns, [[("t", path)] for path in paths], [("t", key) for key in keys])


def test_who_is_granted_it_by_name_or_by_group_sees_it_and_administrators_do() -> None:
    fleet = registered("group:staff", "user:ada")

    assert [sees(who, "bookings", fleet) for who in (ADA, STAFF, ROOT, BOB)] == [True, True, True, False]
    assert not sees(ADA, "bookings", registered())
    assert sees(BOB, "bookings", registered(stream=spec_pb2.Stream(name="bookings")))


@pytest.mark.parametrize(
    ("path", "is_sensitive"),
    [
        ("customer.email", True),
        ("customer.email.domain", True),
        ("customer", True),
        ("customer.emails", False),
        ("customer.city", False),
        ("phone", True),
        ("phone_model", False),
        ("rowtime", False),
    ],
)
def test_a_field_is_sensitive_with_what_is_below_it_and_what_holds_it(path: str, is_sensitive: bool) -> None:
    streams = unseen(BOB, SPEC, registered())

    assert bool([*touched([("t", path)], streams)]) == is_sensitive
    assert bool([*touched([("other", path)], streams)]) is False


def test_rows_of_a_sensitive_field_are_written_for_who_is_granted_it_alone() -> None:
    fleet, rows = registered("user:ada"), made("customer.city", "phone")
    refused = may_write(BOB, SPEC, rows, fleet)

    assert [may_write(who, SPEC, rows, fleet).allowed for who in (ADA, ROOT)] == [True, True]
    assert may_write(BOB, SPEC, made("customer.city"), fleet).allowed
    assert (refused.allowed, refused.reason) == (False, "SENSITIVE_COLUMN")
    assert refused.detail == (
        "user:bob may not have column phone written to a sink: it is made of phone of stream bookings, which"
        " is sensitive: an administrator can grant that"
    )
    assert refused.metadata == {"principal": "user:bob", "stream": "bookings", "path": "phone"}


def test_a_sensitive_key_is_written_too() -> None:
    refused = may_write(BOB, SPEC, made("customer.city", keys=("customer.email",)), registered())

    assert (refused.allowed, "the key of its rows" in refused.detail) == (False, True)


def test_event_time_is_as_sensitive_as_the_field_that_it_is() -> None:
    stream = spec_pb2.Stream(name="bookings", sensitive=["event_time"], time_field="event_time")

    assert not may_write(BOB, SPEC, made("rowtime"), registered(stream=stream)).allowed


def test_an_account_that_is_gone_has_no_grant_when_another_has_its_name() -> None:
    team = events_pb2.TeamRegistered(meta=META, team=access_pb2.Team(name="pricing"))
    account = events_pb2.ServiceAccountCreated(
        meta=META,
        account=access_pb2.ServiceAccount(name="bot", team="pricing"),
        role=access_pb2.ROLE_VIEWER,
    )
    grant = events_pb2.GrantChanged(
        meta=META, grant=access_pb2.StreamGrant(stream="bookings", read_sensitive=["account:bot"])
    )
    stream = events_pb2.StreamRegistered(meta=META, stream=STREAM)
    gone = events_pb2.ServiceAccountRevoked(meta=META, name="bot")
    bot = Principal("account:bot")

    assert not sees(bot, "bookings", folded(team, stream, grant, account))
    assert sees(bot, "bookings", folded(team, stream, account, grant))
    assert not sees(bot, "bookings", folded(team, stream, account, grant, gone, account))
