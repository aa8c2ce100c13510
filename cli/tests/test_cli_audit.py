"""`daggers audit` against a gateway whose audit has what it wrote before."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from daggers.v1 import audit_pb2

from api_gateway.auth.audit_topic import MemoryAudits
from chassis.endpoint import Endpoint
from cli.commands.audit import Kind
from cli.output.json_views.audit import kind_of
from eventlog import Draft
from eventlog.memory import MemoryLog
from eventlog.testing import START

CALLS = (
    audit_pb2.CallAudited(
        principal="user:eve", method="/daggers.v1.DaggerService/CreateDagger", subject="probe",
        teams=["delivery"], refused=True, reason="FOREIGN_TOPIC", detail="topic t is another team's",
        kind=audit_pb2.AUDIT_KIND_REFUSED, call_id="c1",
    ),
    audit_pb2.CallAudited(
        method="/daggers.v1.DaggerService/ListDaggers", refused=True, reason="TOKEN_REQUIRED",
        detail="it showed no token", kind=audit_pb2.AUDIT_KIND_UNAUTHENTICATED, peer="10.1.2.3", calls=40,
    ),
    audit_pb2.CallAudited(
        principal="user:ada", method="/daggers.v1.DaggerService/ReadRows", subject="counts",
        teams=["pricing"], allowed=True, reason="ROLE", detail="user:ada is viewer of team pricing",
        kind=audit_pb2.AUDIT_KIND_READ, asked='{"name": "counts"}', sensitive=["bookings.email"],
    ),
)  # fmt: skip


@pytest.fixture(scope="module")
def gateway(serve: Callable[..., int]) -> str:
    """Address of a gateway whose audit has these calls, a minute apart."""
    log = MemoryLog()
    for number, call in enumerate(CALLS):
        draft = Draft(f"a{number}", "/api-gateway/t", "s", START + number * timedelta(minutes=1), call)
        log.place(draft.headers(), call.SerializeToString())
    return f"127.0.0.1:{serve(Endpoint('127.0.0.1:0'), audit_topic=MemoryAudits(log))}"


def test_the_table_has_the_newest_first_and_says_why(shell: Callable[..., Any]) -> None:
    code, out, _ = shell("audit")

    assert (code, [" ".join(row.split()) for row in out.splitlines()]) == (
        0,
        [
            "TIME PRINCIPAL KIND CALL ABOUT WHAT",
            "2026-01-01T00:02:00Z user:ada read ReadRows counts with bookings.email",
            "2026-01-01T00:01:00Z (10.1.2.3) unauthenticated ListDaggers - TOKEN_REQUIRED: it showed no token"
            " (40 calls)",
            "2026-01-01T00:00:00Z user:eve refused CreateDagger probe FOREIGN_TOPIC: topic t is another"
            " team's",
        ],
    )


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--principal", "user:eve"], ["c1"]),
        (["--kind", "refused", "--kind", "unauthenticated"], ["", "c1"]),
        (["--team", "pricing"], [""]),
        (["--since", "2026-01-01T00:01:30Z"], [""]),
        (["--until", "2026-01-01T00:00:30Z"], ["c1"]),
        (["--limit", "2"], ["", ""]),
        (["--principal", "user:nobody"], []),
    ],
)
def test_it_is_narrowed_by_principal_team_kind_and_time(
    shell: Callable[..., Any], words: list[str], found: list[str]
) -> None:
    code, out, _ = shell("audit", *words, "-o", "json")

    assert (code, [each["call_id"] for each in json.loads(out)]) == (0, found)


def test_the_document_of_a_record_has_all_that_is_known_of_it(shell: Callable[..., Any]) -> None:
    _, out, _ = shell("audit", "--limit", "1", "-o", "json")

    assert json.loads(out) == [
        {
            "time": "2026-01-01T00:02:00Z",
            "sequence": 2,
            "kind": "read",
            "principal": "user:ada",
            "peer": None,
            "method": "/daggers.v1.DaggerService/ReadRows",
            "subject": "counts",
            "teams": ["pricing"],
            "allowed": True,
            "refused": False,
            "reason": "ROLE",
            "detail": "user:ada is viewer of team pricing",
            "asked": {"name": "counts"},
            "sensitive": ["bookings.email"],
            "calls": 1,
            "call_id": "",
        }
    ]


def test_a_list_without_a_record_says_so(shell: Callable[..., Any]) -> None:
    assert shell("audit", "--team", "nothing") == (0, "", "the audit has no such record\n")


def test_every_kind_has_its_word() -> None:
    kinds = set(audit_pb2.AuditKind.values()) - {audit_pb2.AUDIT_KIND_UNSPECIFIED}

    assert {kind_of(kind) for kind in Kind} == kinds


def test_a_time_that_is_none_is_a_mistake_of_the_command_line(
    shell: Callable[..., Any], tmp_path: Path
) -> None:
    code, _, err = shell("audit", "--since", "yesterday")

    assert (code, "--since yesterday" in err) == (2, True)
