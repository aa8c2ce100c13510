"""The sinks `clevertap` and `mixpanel` against servers that hold them to what they say that they take."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from services.runtime.tests import fresh, httpserver
from services.runtime.tests.collectors import CleverTap, Mixpanel
from services.runtime.tests.httpserver import Reply
from services.runtime.tests.sink_cases import clevertap as clevertap_case
from services.runtime.tests.sink_cases import mixpanel as mixpanel_case
from services.runtime.tests.sink_contract import batch, many, target

from runtime import sinks
from runtime.clients import sending
from runtime.clients.http import client
from runtime.errors import JobError
from runtime.sinks import Outcome, Target
from runtime.sinks.clevertap import Uploads
from runtime.sinks.mixpanel import Imports

NOON = "2026-01-01T12:01:00Z"
NOON_S = 1_767_268_860


@pytest.fixture
def clevertap() -> Iterator[CleverTap]:
    with httpserver.serving() as server:
        yield CleverTap(server)


@pytest.fixture
def mixpanel() -> Iterator[Mixpanel]:
    with httpserver.serving() as server:
        yield Mixpanel(server)


@pytest.fixture(autouse=True)
def _closed(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No client of a server that is gone is kept, and none is waited for."""
    monkeypatch.setattr(sending, "PATIENCE_S", 0.3)
    yield
    client.pool.clear()


def to_clevertap(fake: CleverTap, folder: Path, **said: Any) -> Target:
    return target("d", clevertap_case.sink(fake.server.url, folder, **said))


def to_mixpanel(fake: Mixpanel, folder: Path, **said: Any) -> Target:
    return target("d", mixpanel_case.sink(fake.server.url, folder, **said))


def write(aimed: Target, rows: pa.RecordBatch) -> Outcome:
    sinks.check(aimed)
    return sinks.open_writer(aimed).write(rows, 0)


def reasons(outcome: Outcome) -> list[tuple[int, str]]:
    return sorted((refusal.row, refusal.reason) for refusal in outcome.refused)


def test_a_row_is_an_event_of_its_user_with_its_other_columns(clevertap: CleverTap, tmp_path: Path) -> None:
    write(to_clevertap(clevertap, tmp_path, event="counted_${n}"), batch({(NOON, "ann"): 5}))

    assert clevertap.processed == [
        {"type": "event", "identity": "ann", "ts": NOON_S, "evtName": "counted_5", "evtData": {"n": 5}}
    ]


def test_a_row_may_be_properties_of_a_profile(clevertap: CleverTap, tmp_path: Path) -> None:
    write(to_clevertap(clevertap, tmp_path, event="", profile=True), batch({(NOON, "ann"): 5}))

    assert clevertap.processed == [
        {"type": "profile", "identity": "ann", "ts": NOON_S, "profileData": {"n": 5}}
    ]


@pytest.mark.parametrize("identity", [None, ""])
def test_rows_of_nobody_are_refused_by_either(
    clevertap: CleverTap, mixpanel: Mixpanel, tmp_path: Path, identity: Any
) -> None:
    rows = batch({(NOON, "ann"): 5, (NOON, identity): 6})

    for aimed in (to_clevertap(clevertap, tmp_path), to_mixpanel(mixpanel, tmp_path)):
        assert reasons(write(aimed, rows)) == [(1, "NO_IDENTITY")]
    assert (len(clevertap.processed), len(mixpanel.imported)) == (1, 1)


def test_a_value_that_is_too_long_is_refused_before_it_is_sent(clevertap: CleverTap, tmp_path: Path) -> None:
    said = to_clevertap(clevertap, tmp_path, identity="n")
    rows = batch({(NOON, "x" * 512): 1, (NOON, "x" * 513): 2, (NOON, "ü" * 256): 3, (NOON, "ü" * 257): 4})

    assert reasons(write(said, rows)) == [(1, "TOO_LARGE"), (3, "TOO_LARGE")]
    assert {event["identity"] for event in clevertap.processed} == {"1", "3"}


@pytest.mark.parametrize("gives_back", [True, False])
@pytest.mark.parametrize("poison", [{0}, {249}, {3, 17, 120}])
def test_records_that_are_not_processed_are_refused_and_all_others_are_there(
    clevertap: CleverTap, tmp_path: Path, poison: set[int], gives_back: bool
) -> None:
    clevertap.gives_back = gives_back
    clevertap.code = lambda record: 513 if record["evtData"]["n"] in poison else 0
    outcome = write(to_clevertap(clevertap, tmp_path), batch(many(250)))

    assert reasons(outcome) == [(row, "SINK_REFUSED") for row in sorted(poison)]
    assert all("code 513" in each.detail and "canary" not in each.detail for each in outcome.refused)
    seen = Counter(event["evtData"]["n"] for event in clevertap.processed)
    assert set(seen) == {*range(250)} - poison
    if gives_back:
        assert set(seen.values()) == {1}


def test_a_record_that_met_an_error_of_the_server_alone_is_sent_again(
    clevertap: CleverTap, tmp_path: Path
) -> None:
    met = Counter[int]()

    def code(record: dict[str, Any]) -> int:
        met[record["evtData"]["n"]] += 1
        return 555 if record["evtData"]["n"] == 7 and met[7] < 3 else 0

    clevertap.code = code

    assert write(to_clevertap(clevertap, tmp_path), batch(many(50))).refused == []
    assert met == {**dict.fromkeys(range(50), 1), 7: 3}


def test_an_account_never_has_more_requests_than_it_may(clevertap: CleverTap, tmp_path: Path) -> None:
    clevertap.after_s = 0.01

    assert write(to_clevertap(clevertap, tmp_path), batch(many(10_000))).refused == []
    assert len(clevertap.processed) == 10_000
    assert 4 <= clevertap.server.most_at_once <= 10


def test_a_row_is_an_event_with_an_id_that_repeats(mixpanel: Mixpanel, tmp_path: Path) -> None:
    for _ in range(2):
        write(to_mixpanel(mixpanel, tmp_path), batch({(NOON, "ann"): 5, (NOON, "bob"): 5}))

    [ann, bob] = [event["properties"] for event in mixpanel.imported.values()]
    assert {**ann, "$insert_id": ""} == {
        "time": 1000 * NOON_S, "distinct_id": "ann", "$insert_id": "", "n": 5,
    }  # fmt: skip
    assert (len(ann["$insert_id"]), ann["$insert_id"] != bob["$insert_id"]) == (32, True)


@pytest.mark.parametrize("poison", [{0}, {4_999}, {3, 1_999, 2_000}, {*range(5_000)}])
def test_events_that_are_not_imported_are_refused_and_all_others_are_there(
    mixpanel: Mixpanel, tmp_path: Path, poison: set[int]
) -> None:
    mixpanel.wrong = lambda event: "properties.n" if event["properties"]["n"] in poison else ""
    outcome = write(to_mixpanel(mixpanel, tmp_path), batch(many(5_000)))

    assert reasons(outcome) == [(row, "SINK_REFUSED") for row in sorted(poison)]
    assert all(
        each.detail.endswith("does not import the event for properties.n.") for each in outcome.refused
    )
    taken = {event["properties"]["n"] for event in mixpanel.imported.values()}
    assert taken == {*range(5_000)} - poison


def test_requests_that_are_too_large_are_halved(mixpanel: Mixpanel, tmp_path: Path) -> None:
    mixpanel.most_bytes = 20_000

    assert write(to_mixpanel(mixpanel, tmp_path), batch(many(3_000))).refused == []
    assert len(mixpanel.imported) == 3_000


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (Reply(401), "SINK_DENIED"),
        (Reply(404), "SINK_MISSING"),
        (Reply(429), "SINK_THROTTLES"),
        (Reply(502), "SINK_UNAVAILABLE"),
        (Reply(302, headers={"Location": "http://169.254.169.254/"}), "SINK_REDIRECTS"),
    ],
)
def test_an_answer_that_is_about_the_server_waits_and_refuses_no_row(
    clevertap: CleverTap, mixpanel: Mixpanel, tmp_path: Path, reply: Reply, reason: str
) -> None:
    clevertap.server.answer = mixpanel.server.answer = lambda _: reply
    for aimed in (to_clevertap(clevertap, tmp_path), to_mixpanel(mixpanel, tmp_path)):
        with pytest.raises(JobError) as caught:
            write(aimed, batch(many(3)))

        assert (caught.value.error.reason, caught.value.error.retryable) == (reason, True)


def _write_and_be_killed(aimed: Target, rows: Any, after: int) -> None:
    """In a process of its own: sends rows until so many requests were answered, and dies."""
    answered, judge = count(1), rows.judge

    def counted(self: Any, sent: Sequence[int], answer: Any) -> Any:
        if next(answered) > after:
            os.kill(os.getpid(), signal.SIGKILL)
        return judge(self, sent, answer)

    rows.judge = counted
    write(aimed, batch(many(6_000)))


@pytest.mark.parametrize("after", [0, 2])
@pytest.mark.parametrize("kind", ["clevertap", "mixpanel"])
def test_no_row_is_lost_wherever_a_worker_is_killed(
    clevertap: CleverTap, mixpanel: Mixpanel, tmp_path: Path, kind: str, after: int
) -> None:
    aimed, rows = (
        (to_clevertap(clevertap, tmp_path), Uploads)
        if kind == "clevertap"
        else (to_mixpanel(mixpanel, tmp_path), Imports)
    )
    code = fresh.exit_code(_write_and_be_killed, aimed, rows, after)
    write(aimed, batch(many(6_000)))

    assert code == -signal.SIGKILL
    said = [event["evtData"] for event in clevertap.processed]
    said += [event["properties"] for event in mixpanel.imported.values()]
    times = Counter(each["n"] for each in said)
    assert set(times) == {*range(6_000)}
    if kind == "mixpanel":
        assert set(times.values()) == {1}
