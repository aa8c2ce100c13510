"""Validate: everything that is found, and nothing written; as much as Create finds."""

from __future__ import annotations

from typing import Any

import pytest
from daggers.v1 import gateway_pb2, spec_pb2
from google.protobuf.duration_pb2 import Duration

pb = gateway_pb2


async def validate(client: Any, spec: spec_pb2.DaggerSpec, name: str = "") -> pb.ValidateResponse:
    return await client.daggers.Validate(pb.ValidateRequest(name=name, spec=spec), timeout=10)


async def test_a_spec_that_can_run_answers_its_columns_with_their_roles(ready: Any, samples: Any) -> None:
    before = await ready.log.end()

    answer = await validate(ready, samples.spec())

    assert (list(answer.findings), await ready.log.end()) == ([], before)
    assert [(c.name, pb.OutputColumn.Role.Name(c.role), c.key, c.type) for c in answer.columns] == [
        ("tag_city", "ROLE_TAG", "tag_city", "string"),
        ("orders", "ROLE_FIELD", "orders", "bigint"),
        ("window_timestamp", "ROLE_TIME", "window_timestamp", "timestamp"),
    ]


async def test_the_window_of_a_query_is_told_and_none_of_one_without(ready: Any, samples: Any) -> None:
    windowed = (await validate(ready, samples.spec())).window
    spec = samples.spec()
    spec.sql = "SELECT city FROM `data_stream`"
    plain = await validate(ready, spec)

    assert (windowed.kind, windowed.size, windowed.slide) == (
        "TUMBLE",
        Duration(seconds=10),
        Duration(seconds=10),
    )
    assert not plain.HasField("window")


async def test_everything_that_is_wrong_is_an_answer_with_its_place(ready: Any, samples: Any) -> None:
    spec = samples.spec()
    spec.trigger.CopyFrom(Duration())
    spec.sql = "SELECT\n  citty AS tag_city\nFROM `data_stream`"

    answer = await validate(ready, spec, name="X")
    found = [(f.field, f.code, f.severity, f.line) for f in answer.findings]
    place = answer.findings[-1]

    assert found == [
        ("name", "INVALID_NAME", pb.SEVERITY_ERROR, 0),
        ("spec.trigger", "OUT_OF_RANGE", pb.SEVERITY_ERROR, 0),
        ("spec.sql", "UNKNOWN_COLUMN", pb.SEVERITY_ERROR, 2),
    ]
    assert (place.column, place.end_line, place.end_column, place.suggestion) == (3, 2, 8, "city")
    assert place.edit == pb.Edit(line=2, column=3, end_line=2, end_column=8, text="city")


async def test_a_condition_of_a_sink_is_judged_by_the_columns_of_the_query(ready: Any, samples: Any) -> None:
    spec = samples.spec()
    spec.sinks[0].when = "orders > 1"
    well = await validate(ready, spec)
    spec.sinks[0].when = "orders > 1 AND\n cty = 'x'"
    answer = await validate(ready, spec)

    [found] = answer.findings
    assert list(well.findings) == []
    assert (found.field, found.code, found.line, found.column) == (
        "spec.sinks[0].when", "UNKNOWN_COLUMN", 2, 2,
    )  # fmt: skip
    assert len(answer.columns) == 3


async def test_what_has_to_be_made_for_sinks_is_told_once_nothing_is_wrong(ready: Any, samples: Any) -> None:
    spec = samples.spec()
    table = spec.sinks.add(name="table").postgres
    table.address.host, table.address.database, table.address.user, table.table = "db", "d", "u", "rows"
    well = await validate(ready, spec)
    table.key.append("nope")
    wrong = await validate(ready, spec)

    assert [(made.sink, len(made.statements)) for made in well.ddl] == [("table", 2)]
    errors = [finding for finding in wrong.findings if finding.severity == pb.SEVERITY_ERROR]
    assert [(len(errors), list(wrong.ddl))] == [(1, [])]


async def test_warnings_come_with_the_columns(ready: Any, samples: Any) -> None:
    spec = samples.spec()
    spec.sql = samples.query.replace(", city", ", city, status")

    answer = await validate(ready, spec)

    assert {f.severity for f in answer.findings} == {pb.SEVERITY_WARNING}
    assert len(answer.columns) == 3


async def test_no_finding_is_left_out_however_many_there_are(ready: Any, samples: Any, refusal: Any) -> None:
    spec = samples.spec()
    spec.sql = f"SELECT {', '.join(f'no_such_column_{n} AS c{n}' for n in range(90))} FROM `data_stream`"

    answer = await validate(ready, spec)
    refused = await refusal(ready.create(spec=spec, validate_only=True))

    assert len(answer.findings) == 90
    # an error travels in metadata, which clients limit
    assert refused.violations[-1].reason == "MORE"


@pytest.mark.parametrize("name", ["", "a_dagger"])
async def test_what_validate_passes_is_created(ready: Any, samples: Any, name: str) -> None:
    answer = await validate(ready, samples.spec(), name)
    created = await ready.create()

    assert (len(answer.findings), created.dagger.version) == (0, 1)


async def test_a_query_of_three_megabytes_is_an_answer_like_any_other(ready: Any, samples: Any) -> None:
    spec = samples.spec()
    spec.sql = f"SELECT '{'x' * 3_000_000}' AS a FROM `data_stream`"

    answer = await validate(ready, spec)

    assert [(f.field, f.code) for f in answer.findings] == [("spec.sql", "QUERY_TOO_LARGE")]
