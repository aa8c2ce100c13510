"""What every sink promises, asked of each file in the folder, against the real store."""

import importlib
import inspect
import time
from dataclasses import replace
from typing import Any

import pytest
from daggers.v1 import spec_pb2
from services.runtime.tests.sink_contract import (
    COUNTS,
    Bench,
    batch,
    case_of,
    having,
    many,
    on_servers,
)

import daggerspec.kind
import daggerspec.sinks
from daggerspec.registered import addresses
from runtime import sinks
from runtime.errors import JobError, TemporaryError


@pytest.fixture(params=on_servers(sinks.names()))
def bench(request: pytest.FixtureRequest) -> Bench:
    return Bench(request.param, request)


KINDS = spec_pb2.Sink.DESCRIPTOR.oneofs_by_name["kind"].fields


def test_what_is_known_of_a_sink_and_how_it_is_written_to_are_of_one_name() -> None:
    assert sinks.names() == daggerspec.sinks.names()
    assert sinks.names() == tuple(sorted(kind.name for kind in KINDS))


@pytest.mark.parametrize("name", sinks.names())
def test_a_kind_says_all_that_the_rule_book_asks(name: str) -> None:
    kind = daggerspec.sinks.load(name)
    asked = vars(daggerspec.kind.Kind).keys() | daggerspec.kind.Kind.__annotations__.keys()
    said = {each for each in asked if not each.startswith("_")}

    assert [each for each in sorted(said) if not hasattr(kind, each)] == []


@pytest.mark.parametrize("name", sinks.names())
def test_a_sink_states_its_guarantee_and_has_both_functions(name: str) -> None:
    module = importlib.import_module(f"runtime.sinks.{name}")

    assert "Guarantee:" in (module.__doc__ or "")
    assert daggerspec.sinks.load(name).CAPABILITIES.promise
    assert list(inspect.signature(module.check).parameters) == ["target"]
    assert list(inspect.signature(module.open).parameters) == ["target"]


def test_a_sink_with_a_typo_lists_what_exists() -> None:
    with pytest.raises(JobError) as refused:
        sinks.load("inlfux")

    known = ", ".join(sinks.names())
    assert refused.value.error.detail == f"There is no sink 'inlfux'; choose one of {known}."


@pytest.mark.integration
def test_rows_are_there_once_write_has_returned(bench: Bench) -> None:
    refused = bench.write(COUNTS)

    assert (bench.read(), refused) == (COUNTS, [])


@pytest.mark.integration
def test_a_batch_that_is_repeated_leaves_the_same_rows(bench: Bench) -> None:
    for _ in range(2):
        bench.write(COUNTS)

    assert bench.read() == COUNTS


@pytest.mark.integration
def test_a_batch_that_is_cut_in_another_way_leaves_the_same_rows(bench: Bench) -> None:
    rows = list(COUNTS.items())
    bench.write(COUNTS)
    bench.write(dict(rows[:1]), dict(rows[1:]))

    assert bench.read() == COUNTS


@pytest.mark.integration
def test_a_partition_that_a_worker_left_half_way_is_whole_once_it_is_written_again(bench: Bench) -> None:
    rows = list(COUNTS.items())
    bench.write(dict(rows[:2]), is_finished=False)
    bench.write(COUNTS)

    assert bench.read() == COUNTS


@pytest.mark.integration
def test_rows_that_were_set_aside_are_written_whatever_was_written_since(bench: Bench) -> None:
    rows = list(COUNTS.items())
    bench.write(dict(rows[2:]), batch_id=7)
    bench.target = replace(bench.target, is_replay=True)
    for _ in range(2):
        bench.write(dict(rows[:2]), checkpoint="replay/one")
    bench.target = replace(bench.target, is_replay=False)
    bench.write(dict(rows[2:]), batch_id=8, checkpoint="after an edit")

    assert bench.read() == COUNTS


@pytest.mark.integration
def test_numbers_of_batches_that_begin_again_with_a_new_checkpoint_hide_no_row(bench: Bench) -> None:
    rows = list(COUNTS.items())
    bench.write(dict(rows[:2]), batch_id=41)
    bench.write(dict(rows[2:]), batch_id=0, checkpoint="another")

    assert bench.read() == COUNTS


@pytest.mark.integration
def test_of_one_key_in_two_batches_the_last_row_counts(bench: Bench) -> None:
    bench.write({key: n + 1 for key, n in COUNTS.items()}, COUNTS)

    assert bench.read() == COUNTS


@pytest.mark.integration
@pytest.mark.parametrize("places", [(0,), (49,), (3, 17, 40)], ids=["first", "last", "three"])
@pytest.mark.parametrize("bench", having("POISON"), indirect=True)
def test_rows_that_are_refused_are_told_and_the_others_are_written(
    bench: Bench, places: tuple[int, ...]
) -> None:
    rows = list(many(50).items())
    for number, place in enumerate(places):
        city, n = bench.case.POISON
        rows[place] = ((f"2026-01-02T00:0{number}:00Z", city), n)

    refused = bench.write(dict(rows))

    assert [each.row for each in sorted(refused, key=lambda each: each.row)] == list(places)
    assert all(each.reason.isupper() and each.detail for each in refused)
    assert bench.read() == {key: n for number, (key, n) in enumerate(rows) if number not in places}


@pytest.mark.integration
@pytest.mark.parametrize("bench", having("POISON"), indirect=True)
def test_a_batch_of_nothing_but_a_row_that_is_refused_is_written(bench: Bench) -> None:
    city, n = bench.case.POISON

    assert [each.row for each in bench.write({("2026-01-01T12:01:00Z", city): n})] == [0]


@pytest.mark.integration
@pytest.mark.parametrize("bench", having("silence"), indirect=True)
def test_a_sink_that_does_not_answer_says_so_to_writers_and_to_who_asks_and_loses_nothing(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    sinks.probe(bench.target)
    with bench.case.silence(bench.resolved, monkeypatch) as silent:
        away = bench.aimed(silent)
        with pytest.raises(TemporaryError):
            sinks.open_writer(away).write(batch(COUNTS), 0)
        with pytest.raises(TemporaryError):
            sinks.probe(away)
        sinks.check(away)  # silence is no reason not to start
    bench.write(COUNTS)

    assert bench.read() == COUNTS


@pytest.mark.parametrize("name", sinks.names())
def test_a_sink_with_an_address_can_be_asked_whether_it_is_there(name: str) -> None:
    has_address = bool(addresses(daggerspec.sinks.load(name).KEYS))
    module = importlib.import_module(f"runtime.sinks.{name}")

    assert hasattr(module, "probe") == hasattr(case_of(name), "silence") == has_address


def keeping(limit: str) -> list[Any]:
    """The kinds that say that they keep this limit."""
    kinds = daggerspec.sinks.kinds()
    return on_servers(name for name, kind in kinds.items() if limit in kind.CAPABILITIES.limits)


@pytest.mark.integration
@pytest.mark.parametrize("bench", keeping("rows_per_second"), indirect=True)
def test_no_more_rows_are_written_than_its_share_allows(bench: Bench) -> None:
    bench.allow(rows_per_second=100)
    began = time.monotonic()
    refused = bench.write(many(60))

    assert time.monotonic() - began >= 0.6
    assert (refused, len(bench.read())) == ([], 60)


@pytest.mark.integration
@pytest.mark.parametrize("bench", keeping("requests_per_second"), indirect=True)
def test_no_more_requests_go_out_than_its_share_allows(bench: Bench) -> None:
    bench.allow(requests_per_second=10)
    began = time.monotonic()
    for number in range(5):
        bench.write({("2026-01-01T12:01:00Z", f"city {number}"): number}, batch_id=number)

    assert time.monotonic() - began >= 0.5
    assert len(bench.read()) == 5


@pytest.mark.integration
def test_no_rows_are_no_trouble(bench: Bench) -> None:
    assert bench.write({}) == []
