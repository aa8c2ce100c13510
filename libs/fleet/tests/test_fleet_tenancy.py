"""Teams, roles, service accounts and grants: what each event changes, and what is not believed."""

from __future__ import annotations

from typing import Any

import pytest
from daggers.v1 import access_pb2, events_pb2, spec_pb2
from google.protobuf.timestamp_pb2 import Timestamp

from eventlog.testing import START, given
from fleet import ApplyResult, Fleet

META = events_pb2.RequestMeta(actor="root")
VIEWER, EDITOR, OWNER = access_pb2.ROLE_VIEWER, access_pb2.ROLE_EDITOR, access_pb2.ROLE_OWNER
ADMINISTRATOR = access_pb2.ROLE_ADMINISTRATOR


def folded(*events: Any) -> tuple[Fleet, ApplyResult]:
    fleet = Fleet()
    for record in given(*events):
        applied = fleet.apply(record)
    return fleet, applied


def team(name: str = "pricing", version: int | None = None, **members: Any) -> events_pb2.TeamRegistered:
    listed = [access_pb2.Member(principal=f"user:{who}", role=role) for who, role in members.items()]
    event = events_pb2.TeamRegistered(meta=META, team=access_pb2.Team(name=name, members=listed))
    if version is not None:
        event.meta.expected_version = version
    return event


def granted(principal: str, role: Any, name: str = "pricing") -> events_pb2.RoleGranted:
    return events_pb2.RoleGranted(meta=META, team=name, principal=principal, role=role)


def account(name: str = "ci", role: Any = EDITOR, end: int = 0, of: str = "pricing") -> Any:
    made = access_pb2.ServiceAccount(name=name, team=of)
    made.tokens.add(id="first")
    if end:
        made.tokens[0].expire_time.CopyFrom(at(end))
    return events_pb2.ServiceAccountCreated(meta=META, account=made, role=role)


def rotated(token: str, overlap: int, name: str = "ci") -> events_pb2.ServiceAccountRotated:
    return events_pb2.ServiceAccountRotated(
        meta=META, name=name, token=access_pb2.AccountToken(id=token), overlap_until=at(overlap)
    )


def at(seconds: int) -> Timestamp:
    """That many seconds after the first record."""
    return Timestamp(seconds=int(START.timestamp()) + seconds)


def members(fleet: Fleet, name: str = "pricing") -> dict[str, int]:
    return {member.principal: member.role for member in fleet.catalogue.teams[name].value.members}


def refusal(applied: ApplyResult) -> str:
    assert not applied.changed
    assert applied.answer is not None
    assert applied.answer.refusal is not None
    return applied.answer.refusal.reason


def test_a_grant_is_a_new_version_of_the_team_so_who_replaces_it_has_seen_it() -> None:
    fleet, late = folded(team(ada=OWNER), granted("user:bob", VIEWER), team(version=1, ada=OWNER))

    assert refusal(late) == "VERSION_MISMATCH"
    assert members(fleet) == {"user:ada": OWNER, "user:bob": VIEWER}


def test_a_role_that_is_given_again_is_the_new_one_and_goes_whole() -> None:
    gone = events_pb2.RoleRevoked(meta=META, team="pricing", principal="user:bob")
    fleet, applied = folded(team(), granted("user:bob", VIEWER), granted("user:bob", EDITOR), gone)

    assert applied.changed
    assert members(fleet) == {}


def test_the_platform_has_administrators_alone_and_no_team_has_one() -> None:
    fleet, applied = folded(team(), granted("user:ada", ADMINISTRATOR, ""))

    assert applied.changed
    assert members(fleet, "") == {"user:ada": ADMINISTRATOR}
    assert refusal(folded(team(), granted("user:ada", ADMINISTRATOR))[1]) == "INVALID_ROLE"
    assert refusal(folded(team(), granted("user:ada", OWNER, ""))[1]) == "INVALID_ROLE"
    assert refusal(folded(team(ada=ADMINISTRATOR))[1]) == "INVALID_ROLE"
    assert refusal(folded(team("", ada=ADMINISTRATOR))[1]) == "NOT_FOUND"
    removed = events_pb2.TeamRemoved(meta=META, name="")
    assert refusal(folded(granted("user:ada", ADMINISTRATOR, ""), removed)[1]) == "NOT_FOUND"


def test_an_account_that_is_not_there_is_given_nothing_for_who_makes_it_later() -> None:
    listed = access_pb2.Member(principal="account:ci", role=OWNER)
    before = events_pb2.TeamRegistered(meta=META, team=access_pb2.Team(name="pricing", members=[listed]))

    assert refusal(folded(before)[1]) == "NOT_FOUND"
    assert refusal(folded(team(), granted("account:ci", OWNER))[1]) == "NOT_FOUND"


def test_an_account_is_in_its_team_and_out_of_every_team_once_it_is_revoked() -> None:
    made = [team(), team("delivery"), account(), granted("account:ci", VIEWER, "delivery")]
    fleet, _ = folded(*made)
    gone, applied = folded(*made, events_pb2.ServiceAccountRevoked(meta=META, name="ci"))
    anew, _ = folded(*made, events_pb2.ServiceAccountRevoked(meta=META, name="ci"), account(role=VIEWER))

    assert (members(fleet), members(fleet, "delivery")) == ({"account:ci": EDITOR}, {"account:ci": VIEWER})
    assert applied.changed
    assert (members(gone), members(gone, "delivery"), gone.catalogue.accounts) == ({}, {}, {})
    assert (members(anew), members(anew, "delivery")) == ({"account:ci": VIEWER}, {})


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (account(), "NAME_TAKEN"),
        (account("other", role=ADMINISTRATOR), "INVALID_ROLE"),
        (account("other", of="nowhere"), "NOT_FOUND"),
        (account("other", of=""), "NOT_FOUND"),
        (rotated("second", 9, "nobody"), "NOT_FOUND"),
        (events_pb2.ServiceAccountRevoked(meta=META, name="nobody"), "NOT_FOUND"),
        (events_pb2.TeamRemoved(meta=META, name="pricing"), "IN_USE"),
        (events_pb2.RoleRevoked(meta=META, team="pricing", principal="user:nobody"), "NO_ROLE"),
        (events_pb2.GrantChanged(meta=META, grant={"stream": "nowhere"}), "NOT_FOUND"),
    ],
)
def test_what_cannot_be_is_refused(event: Any, reason: str) -> None:
    assert refusal(folded(team(), account(), event)[1]) == reason


def test_a_new_token_takes_the_place_of_the_old_one_which_ends_with_the_overlap() -> None:
    fleet, _ = folded(team(), account(end=1_000), rotated("second", 100))
    first, second = fleet.catalogue.accounts["ci"].value.tokens[::-1]

    assert (first.id, first.expire_time) == ("first", at(100))
    assert (second.id, second.HasField("expire_time")) == ("second", False)


def test_an_old_token_that_ends_before_the_overlap_does_not_live_longer_for_it() -> None:
    fleet, _ = folded(team(), account(end=50), rotated("second", 100))

    assert fleet.catalogue.accounts["ci"].value.tokens[1].expire_time == at(50)


def test_of_more_than_two_tokens_and_of_those_that_have_ended_none_is_kept() -> None:
    busy, _ = folded(team(), account(), rotated("second", 100), rotated("third", 100))
    slow, _ = folded(team(), account(end=1), rotated("second", 100))
    at_once, _ = folded(team(), account(), rotated("second", 0))

    assert [token.id for token in busy.catalogue.accounts["ci"].value.tokens] == ["third", "second"]
    assert [token.id for token in slow.catalogue.accounts["ci"].value.tokens] == ["second"]
    assert [token.id for token in at_once.catalogue.accounts["ci"].value.tokens] == ["second"]


def test_a_stream_that_is_registered_anew_is_as_restricted_as_the_one_before() -> None:
    stream = events_pb2.StreamRegistered(meta=META, stream=spec_pb2.Stream(name="trips"))
    grant = events_pb2.GrantChanged(
        meta=META, grant={"stream": "trips", "restricted": True, "teams": ["pricing", "pricing"]}
    )
    fleet, _ = folded(team(), stream, grant, events_pb2.StreamRemoved(meta=META, name="trips"), stream)

    assert fleet.catalogue.grants["trips"].value.restricted
    assert list(fleet.catalogue.grants["trips"].value.teams) == ["pricing"]
