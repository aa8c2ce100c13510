"""Reference tables: registered in allowed places only, listed by name, known to the check of a query."""

from __future__ import annotations

from typing import Any

import pytest
from daggers.v1 import gateway_pb2, spec_pb2

from api_gateway.validate.reference_places import violations

pb = gateway_pb2
Table = spec_pb2.ReferenceTable
PLACES = ("/data/tables", "https://ref.example/t/")


def table(location: str, name: str = "cities.v1", format_: Any = Table.FORMAT_CSV) -> Table:
    return Table(name=name, format=format_, location=location)


def reasons(what: Table) -> list[tuple[str, str]]:
    return [(violation.field, violation.reason) for violation in violations("reference", what, PLACES)]


@pytest.mark.parametrize(
    "location", ["/data/tables/c.csv", "/data/tables/deep/er/c.csv", "https://ref.example/t/c.csv"]
)
def test_a_table_in_an_allowed_place_has_no_violation(location: str) -> None:
    assert reasons(table(location)) == []


@pytest.mark.parametrize(
    ("location", "reason"),
    [
        ("/etc/passwd", "FORBIDDEN_PLACE"),
        ("/data/tables2/c.csv", "FORBIDDEN_PLACE"),
        ("https://ref.example.evil/t/c.csv", "FORBIDDEN_PLACE"),
        ("http://ref.example/t/c.csv", "FORBIDDEN_PLACE"),
        ("/data/tables/../../etc/passwd", "INVALID_LOCATION"),
        ("/data/tables//c.csv", "INVALID_LOCATION"),
        ("https://ref.example/t/%2e%2e/c.csv", "INVALID_LOCATION"),
        ("https://ref.example/t/..\\c.csv", "INVALID_LOCATION"),
        ("https://user:secret@ref.example/t/c.csv", "INVALID_LOCATION"),
        ("https://ref.example/t/c.csv?token=secret", "INVALID_LOCATION"),
        ("c.csv", "INVALID_LOCATION"),
        ("", "INVALID_LOCATION"),
        ("file:///data/tables/c.csv", "INVALID_LOCATION"),
        ("https://[::1/c.csv", "INVALID_LOCATION"),
        ("/data/tables/a\nb", "INVALID_LOCATION"),
    ],
)
def test_a_location_that_leads_elsewhere_is_refused(location: str, reason: str) -> None:
    assert reasons(table(location)) == [("reference.location", reason)]


def test_everything_that_is_wrong_with_a_table_is_told_at_once() -> None:
    found = reasons(table("/etc/passwd", name="-", format_=Table.FORMAT_UNSPECIFIED))

    assert [field for field, _ in found] == ["reference.name", "reference.format", "reference.location"]


async def test_a_registered_table_is_listed_and_a_repeat_is_one_registration(client: Any) -> None:
    request = pb.RegisterReferenceRequest(reference=table("/data/tables/c.csv"), request_id="r")
    first = await client.catalog.RegisterReference(request, timeout=10)
    second = await client.catalog.RegisterReference(request, timeout=10)
    listed = await client.catalog.ListReferences(
        pb.ListReferencesRequest(min_sequence=first.sequence), timeout=10
    )

    assert (first, list(listed.references)) == (second, [request.reference])


async def test_a_table_is_only_checked_or_guarded_by_its_version(client: Any, refusal: Any) -> None:
    request = pb.RegisterReferenceRequest(reference=table("/data/tables/c.csv"), validate_only=True)
    await client.catalog.RegisterReference(request, timeout=10)
    guarded = pb.RegisterReferenceRequest(reference=request.reference, expected_version=1)
    error = await refusal(client.catalog.RegisterReference(guarded, timeout=10))

    assert (error.reason, await client.log.end()) == ("NOT_FOUND", -1)


async def test_a_query_may_name_registered_tables_only(ready: Any, samples: Any) -> None:
    spec = samples.spec()
    spec.sql = "SELECT city, DartGet('cities.v1', city, 1) AS x FROM `data_stream`"
    request = pb.ValidateRequest(spec=spec)
    before = await ready.daggers.Validate(request, timeout=10)
    await ready.catalog.RegisterReference(
        pb.RegisterReferenceRequest(reference=table("/data/tables/c.csv")), timeout=10
    )
    after = await ready.daggers.Validate(request, timeout=10)

    assert [finding.code for finding in before.findings] == ["REFERENCE_NOT_FOUND"]
    assert "REFERENCE_NOT_FOUND" not in {finding.code for finding in after.findings}
