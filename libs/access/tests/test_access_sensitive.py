"""Sensitive fields: who sees them, and who may have them written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from daggers.v1 import access_pb2, events_pb2, spec_pb2

from access import Principal
from access.sensitive import (
    DERIVE,
    RowOrigins,
    check_deciding,
    check_dropped,
    check_written,
    masked_columns,
    sees,
    sensitive_paths,
    unseen,
)
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


@dataclass(frozen=True)
class Where:
    """An influence at line 2."""

    origins: Sequence[tuple[str, str]]
    clause: str = "WHERE"
    place: tuple[int, int, int, int] = (2, 1, 2, 9)


def made(*paths: str, by: tuple[str, ...] = (), **more: Any) -> RowOrigins:
    """Rows with a column for each path, which are chosen by other paths."""
    columns = [Column(path, Role.FIELD, path, "string") for path in paths]
    origins = [[("t", path)] for path in paths]
    return RowOrigins(
        columns, origins, [(1, 8, 1, 12)] * len(paths), [Where([("t", path)]) for path in by], **more
    )


def found(who: Principal, rows: RowOrigins, fleet: Fleet) -> list[tuple[str, str, int | None]]:
    """What may not be written, and what may not decide."""
    streams = unseen(who, SPEC, fleet)
    wrong = [*check_written(who, rows, streams, fleet), *check_deciding(who, rows, streams, fleet)]
    return [(one.field, one.metadata["path"], one.line) for one in wrong]


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

    assert bool([*sensitive_paths([("t", path)], streams)]) == is_sensitive
    assert bool([*sensitive_paths([("other", path)], streams)]) is False


def test_rows_of_a_sensitive_field_are_written_for_who_is_granted_it_alone() -> None:
    fleet, rows = registered("user:ada"), made("customer.city", "phone")
    (refused,) = check_written(BOB, rows, unseen(BOB, SPEC, fleet), fleet)

    assert [found(who, rows, fleet) for who in (ADA, ROOT)] == [[], []]
    assert found(BOB, made("customer.city"), fleet) == []
    assert (refused.reason, refused.line, refused.suggestion) == ("SENSITIVE_COLUMN", 1, DERIVE)
    assert refused.message == (
        "column phone would be written to a sink: it is made of phone of stream bookings, which is sensitive"
        " and not granted to user:bob: an administrator can grant that"
    )
    assert refused.metadata == {"principal": "user:bob", "stream": "bookings", "path": "phone"}
    assert [column.name for column in masked_columns(rows, unseen(BOB, SPEC, fleet))] == ["phone"]


def test_all_places_are_said_where_a_sensitive_field_decides() -> None:
    rows = made(
        "customer.city", "phone", by=("customer.email", "number"),
        conditions={"sinks[0].when": [("t", "phone")], "sinks[1].when": [("t", "number")]},
        telling={"sinks[1]": ["customer.city", "phone"]},
    )  # fmt: skip

    assert found(BOB, rows, registered()) == [
        ("", "phone", 1),
        ("", "customer.email", 2),
        ("sinks[0].when", "phone", None),
        ("sinks[1]", "phone", None),
    ]
    assert found(ADA, rows, registered("user:ada")) == []


def test_event_time_is_as_sensitive_as_the_field_that_it_is() -> None:
    """And then rows come by it, whatever the query says."""
    stream = spec_pb2.Stream(name="bookings", sensitive=["event_time"], time_field="event_time")

    assert found(BOB, made("rowtime"), registered(stream=stream)) == [
        ("", "event_time", 1), ("streams", "event_time", None),
    ]  # fmt: skip
    assert found(BOB, made("customer.city"), registered(stream=stream)) == [("streams", "event_time", None)]


def test_all_of_a_stream_is_sensitive_once_nobody_knows_what_was() -> None:
    fleet = folded(
        events_pb2.StreamRegistered(meta=META, stream=STREAM),
        events_pb2.StreamRemoved(meta=META, name="bookings"),
    )

    assert not sees(BOB, "bookings", fleet)
    assert sees(ROOT, "bookings", fleet)
    assert found(BOB, made("customer.city"), fleet) == [("", "", 1), ("streams", "", None)]


def test_an_edit_drops_what_its_query_no_longer_reads() -> None:
    fleet = registered()
    streams = unseen(BOB, SPEC, fleet)
    kept = list(check_deciding(BOB, made(by=("phone",)), streams, fleet))

    def paths(before: RowOrigins | None) -> list[str]:
        return [violation.metadata["path"] for violation in check_dropped(BOB, before, streams, kept, fleet)]

    assert paths(made("customer.city", "phone")) == []
    assert paths(made("phone", by=("customer.email",))) == ["customer.email"]
    assert paths(None) == [""]


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
