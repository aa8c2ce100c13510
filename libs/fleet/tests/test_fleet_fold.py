"""The fold: what requests and facts do to daggers and the catalogue."""

from datetime import UTC

import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2
from google.protobuf.message import Message

from eventlog.testing import given, record
from fleet import ApplyResult, Code, Dagger, Fleet
from fleet.fold.dagger import REVISIONS
from fleet.fold.view import to_proto

SQL = spec_pb2.DaggerSpec(sql="SELECT 1")
OTHER_SQL = spec_pb2.DaggerSpec(sql="SELECT 2")
META = events_pb2.RequestMeta(actor="ada")
NEW = events_pb2.RequestMeta(actor="ada", expected_version=0)
CLAIM = events_pb2.SchedulerStarted(scheduler_id="s", host="here")
ASKED = events_pb2.DaggerRequested(meta=NEW, name="d", spec=SQL)
INTENDED = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="d"), version=1)
DELETE = events_pb2.DeleteRequested(meta=META, name="d")
STOP = events_pb2.StopRequested(meta=META, name="d")
START = events_pb2.StartRequested(meta=META, name="d")
RESTART = events_pb2.RestartRequested(meta=META, name="d")
# CLAIM is record 0, ASKED 1, INTENDED 2 wherever these three stand first.
FACT = events_pb2.FactMeta(name="d", generation=2)
LAUNCHED = events_pb2.Launched(meta=FACT, driver=events_pb2.DriverHandle(host="here", pid=7))
RUNNING = events_pb2.Running(meta=FACT)
BROKEN = events_pb2.DaggerError(reason="BROKEN", detail="it broke", retryable=True)
EXITED = events_pb2.Exited(meta=FACT, code=1, error=BROKEN)
UP = (CLAIM, ASKED, INTENDED, LAUNCHED, RUNNING)


def folded(*messages: Message) -> tuple[Fleet, list[ApplyResult]]:
    """The fold of one record for each message, and what each did."""
    fleet = Fleet()
    return fleet, [fleet.apply(each) for each in given(*messages)]


def dagger(*messages: Message) -> Dagger:
    """Dagger d after these messages, all of which are applied."""
    fleet, applied = folded(*messages)
    assert [step.refused for step in applied] == [""] * len(messages)
    return fleet.daggers["d"]


def refusal(*messages: Message) -> tuple[Code, str]:
    """Why the last of these messages, a request, is refused."""
    answer = folded(*messages)[1][-1].answer
    assert answer is not None
    assert answer.refusal is not None
    return answer.refusal.code, answer.refusal.reason


# ---- Requests ----------------------------------------------------------------------------------------------


def test_a_dagger_that_is_asked_for_is_pending_and_asked_to_run() -> None:
    asked = dagger(CLAIM, ASKED)

    assert (asked.phase, asked.desired) == (gateway_pb2.PENDING, gateway_pb2.DESIRED_RUNNING)
    assert (asked.version, asked.create_sequence, asked.generation) == (1, 1, 0)


def test_a_name_that_is_taken_is_refused() -> None:
    assert refusal(ASKED, ASKED) == (Code.ALREADY_EXISTS, "NAME_TAKEN")


@pytest.mark.parametrize("request_", [STOP, START, RESTART, DELETE])
def test_a_request_about_a_name_that_was_never_used_is_not_found(request_: Message) -> None:
    assert refusal(request_) == (Code.NOT_FOUND, "NOT_FOUND")


def test_a_request_about_another_version_is_aborted() -> None:
    late = events_pb2.StopRequested(meta=events_pb2.RequestMeta(expected_version=2), name="d")

    assert refusal(ASKED, late) == (Code.ABORTED, "VERSION_MISMATCH")


def test_of_two_requests_for_one_version_the_first_wins() -> None:
    edit = events_pb2.DaggerRequested(
        meta=events_pb2.RequestMeta(expected_version=1), name="d", spec=OTHER_SQL
    )

    fleet, applied = folded(ASKED, edit, edit)

    assert [step.changed for step in applied] == [True, True, False]
    assert fleet.daggers["d"].version == 2


def test_facts_do_not_count_as_versions() -> None:
    assert dagger(*UP).version == 1


def test_a_request_repeated_under_its_id_gets_its_first_answer_and_changes_nothing() -> None:
    fleet = Fleet()
    fleet.apply(record(ASKED, sequence=0, id="same"))
    fleet.apply(record(STOP, sequence=1))

    again = fleet.apply(record(ASKED, sequence=2, id="same"))

    assert (again.changed, again.answer) == (False, fleet.answers["same"])
    assert fleet.daggers["d"].version == 2


def test_a_refused_request_stays_refused_under_its_id() -> None:
    fleet = Fleet()
    fleet.apply(record(STOP, sequence=0, id="same"))
    fleet.apply(record(ASKED, sequence=1))

    again = fleet.apply(record(STOP, sequence=2, id="same"))

    assert again.answer == fleet.answer("same", STOP)
    assert not again.answer.accepted
    assert fleet.daggers["d"].desired == gateway_pb2.DESIRED_RUNNING


def test_an_id_that_is_used_again_with_another_body_is_refused() -> None:
    fleet = Fleet()
    fleet.apply(record(ASKED, sequence=0, id="same"))

    second = fleet.apply(record(STOP, sequence=1, id="same"))

    assert second.answer == fleet.answer("same", STOP)
    assert second.answer.refusal.reason == "REQUEST_ID_REUSED"
    assert fleet.answer("same", ASKED).accepted


def test_the_order_of_map_entries_makes_no_other_body() -> None:
    one, two = ({"a": "1", "b": "2"}, {"b": "2", "a": "1"})
    requests = [
        events_pb2.ClusterRegistered(cluster={"name": "c", "kafka": {"properties": each}})
        for each in (one, two)
    ]
    fleet = Fleet()
    fleet.apply(record(requests[0], sequence=0, id="same"))

    assert fleet.answer("same", requests[1]).accepted


def test_a_new_revision_asks_for_another_launch_and_the_same_spec_does_not() -> None:
    same = dagger(*UP, events_pb2.DaggerRequested(meta=META, name="d", spec=SQL))
    other = dagger(*UP, events_pb2.DaggerRequested(meta=META, name="d", spec=OTHER_SQL))

    assert (same.version, same.observed_version, same.current) == (2, 2, True)
    assert (other.version, other.observed_version, other.current) == (2, 1, False)


def test_a_request_to_begin_anew_lasts_until_a_launch_of_it_runs() -> None:
    anew = events_pb2.RestartRequested(meta=META, name="d", from_start=True)
    again = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="d"), version=2)
    newer = events_pb2.FactMeta(name="d", generation=8)
    launched = events_pb2.Launched(meta=newer, driver=events_pb2.DriverHandle(host="there", pid=8))
    degraded = events_pb2.Degraded(meta=FACT, reasons=["NO_PROGRESS"])
    asked = (*UP, degraded, anew, RUNNING)  # of the launch before the request, which says nothing of it

    stopped = (*UP, degraded, anew, EXITED, again, launched)
    known = [dagger(*records) for records in (UP, asked, stopped, (*stopped, events_pb2.Running(meta=newer)))]

    assert [each.from_start for each in known] == [0, 2, 2, 0]
    assert [each.ran_on for each in known] == ["here", "here", "here", "there"]
    assert dagger(*UP, RESTART).from_start == 0


def test_the_last_good_version_is_that_which_ran_until_the_newest_revision_does() -> None:
    edit = events_pb2.DaggerRequested(meta=META, name="d", spec=OTHER_SQL)
    again = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="d"), version=3)
    newer = events_pb2.FactMeta(name="d", generation=8)
    launched = events_pb2.Launched(meta=newer, driver=events_pb2.DriverHandle(host="here", pid=8))
    edited = (*UP, RESTART, edit, EXITED, again, launched)
    known = [dagger(*records) for records in (UP, edited, (*edited, events_pb2.Running(meta=newer)))]

    assert [each.good_version for each in known] == [1, 1, 3]
    assert [each.last_good_version for each in known] == [0, 1, 0]
    assert to_proto(known[1], Fleet()).last_good_version == 1
    assert dagger(CLAIM, ASKED, edit).last_good_version == 0


def test_revisions_are_the_requests_that_gave_it_another_spec() -> None:
    edit = events_pb2.DaggerRequested(meta=META, name="d", spec=OTHER_SQL)
    back = events_pb2.DaggerRequested(meta=META, name="d", spec=SQL)
    gone = events_pb2.Deleted(meta=events_pb2.FactMeta(name="d"))
    revised = dagger(CLAIM, ASKED, STOP, edit, edit, back)
    anew = dagger(CLAIM, ASKED, edit, DELETE, gone, ASKED)

    assert revised.revisions == ((1, 1), (3, 3), (5, 5))
    assert anew.revisions == ((1, 5),)


def test_who_created_it_stays_and_who_revised_it_last_is_known() -> None:
    bob = events_pb2.RequestMeta(actor="bob")
    stop = events_pb2.StopRequested(meta=events_pb2.RequestMeta(actor="eve"), name="d")
    edit = events_pb2.DaggerRequested(meta=bob, name="d", spec=OTHER_SQL)

    assert [
        (known.creator, known.updater) for known in (dagger(CLAIM, ASKED), dagger(CLAIM, ASKED, edit, stop))
    ] == [
        ("ada", "ada"),
        ("ada", "bob"),
    ]


def test_so_many_revisions_are_remembered_the_newest() -> None:
    edits = [
        events_pb2.DaggerRequested(meta=META, name="d", spec=spec_pb2.DaggerSpec(sql=f"SELECT {number}"))
        for number in range(2, REVISIONS + 3)
    ]
    versions = [revision.version for revision in dagger(CLAIM, ASKED, *edits).revisions]

    assert versions == list(range(3, REVISIONS + 3))


def test_a_restart_asks_for_another_launch() -> None:
    assert not dagger(*UP, RESTART).current


def test_a_stop_moves_what_is_asked_and_leaves_what_is_observed_to_facts() -> None:
    stopping = dagger(*UP, STOP)

    assert (stopping.desired, stopping.phase) == (gateway_pb2.DESIRED_STOPPED, gateway_pb2.RUNNING)
    assert stopping.stop_mode == events_pb2.STOP_MODE_DRAIN


def test_a_name_is_free_only_when_its_dagger_is_deleted() -> None:
    gone = events_pb2.Deleted(meta=events_pb2.FactMeta(name="d"))

    assert refusal(CLAIM, ASKED, DELETE, ASKED) == (Code.FAILED_PRECONDITION, "DELETION_IN_PROGRESS")
    assert refusal(CLAIM, ASKED, DELETE, START) == (Code.FAILED_PRECONDITION, "DELETION_IN_PROGRESS")
    assert refusal(CLAIM, ASKED, DELETE, gone, START) == (Code.NOT_FOUND, "NOT_FOUND")
    successor = dagger(CLAIM, ASKED, DELETE, gone, ASKED)
    assert (successor.create_sequence, successor.version, successor.generation) == (4, 1, 0)


def test_a_deleted_dagger_is_not_living_but_its_history_is_kept() -> None:
    fleet, _ = folded(CLAIM, ASKED, DELETE, events_pb2.Deleted(meta=events_pb2.FactMeta(name="d")))

    assert fleet.living("d") is None
    assert fleet.daggers["d"].phase == gateway_pb2.DELETED


def test_only_the_death_of_an_unreachable_driver_can_be_confirmed() -> None:
    vouched = events_pb2.DeathConfirmed(meta=META, name="d", generation=2)

    assert refusal(*UP, vouched) == (Code.FAILED_PRECONDITION, "NOT_UNREACHABLE")
    assert dagger(*UP, events_pb2.Unreachable(meta=FACT), vouched).confirmed_dead


# ---- Facts -------------------------------------------------------------------------------------------------


def test_the_sequence_of_an_intent_is_the_generation() -> None:
    intended = dagger(CLAIM, ASKED, INTENDED)

    assert (intended.generation, intended.phase) == (2, gateway_pb2.STARTING)
    assert (intended.unanswered, intended.observed_generation) == (True, 0)


def test_an_intent_that_is_repeated_under_its_id_is_one_generation() -> None:
    fleet = Fleet()
    for sequence, (message, id_) in enumerate(
        [(CLAIM, "a"), (ASKED, "b"), (INTENDED, "same"), (INTENDED, "same")]
    ):
        fleet.apply(record(message, sequence=sequence, id=id_))

    assert fleet.daggers["d"].generation == 2


def test_a_fact_that_was_ignored_does_not_count_when_it_is_repeated_later() -> None:
    fleet, stopped = Fleet(), events_pb2.Stopped(meta=events_pb2.FactMeta(name="d"))
    for sequence, (message, id_) in enumerate(
        [(CLAIM, "a"), (ASKED, "b"), (stopped, "same"), (STOP, "c"), (stopped, "same")]
    ):
        fleet.apply(record(message, sequence=sequence, id=id_))

    assert fleet.daggers["d"].phase == gateway_pb2.PENDING


def test_no_intent_counts_while_a_driver_lives() -> None:
    fleet, applied = folded(*UP, INTENDED)

    assert applied[-1].refused == "LaunchIntended does not apply in RUNNING"
    assert fleet.daggers["d"].generation == 2


@pytest.mark.parametrize(
    ("before", "why"),
    [
        ((CLAIM, ASKED, STOP), "it is not asked to run"),
        ((CLAIM, ASKED, RESTART), "it is at version 2, not 1"),
        ((CLAIM, ASKED, INTENDED, LAUNCHED), "a driver of it runs"),
    ],
)
def test_an_intent_for_what_is_not_asked_any_more_is_ignored(before: tuple[Message, ...], why: str) -> None:
    assert folded(*before, INTENDED)[1][-1].refused == why


def test_facts_of_an_older_epoch_change_nothing() -> None:
    claim_again = events_pb2.SchedulerStarted(scheduler_id="t", host="there")

    fleet, applied = folded(*UP, claim_again, EXITED)

    assert applied[-1].refused == "it is of epoch 0, the newest is 5"
    assert fleet.daggers["d"].phase == gateway_pb2.RUNNING
    assert (fleet.leader.epoch, fleet.claims[0].host) == (5, "here")


def test_facts_before_any_claim_change_nothing() -> None:
    assert folded(ASKED, INTENDED)[1][-1].refused == "it is of epoch 0, the newest is -1"


def test_reports_of_an_older_generation_change_nothing() -> None:
    old = events_pb2.Running(meta=events_pb2.FactMeta(name="d", generation=1))

    _, applied = folded(CLAIM, ASKED, INTENDED, LAUNCHED, old)

    assert applied[-1].refused == "it speaks of generation 1, the newest is 2"


def test_an_error_is_forgotten_when_a_later_launch_runs() -> None:
    again = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="d"), version=1)
    fact = events_pb2.FactMeta(name="d", generation=6)
    down = (*UP, EXITED, again)

    starting = dagger(*down, events_pb2.Launched(meta=fact, driver={"pid": 8}))
    running = dagger(*down, events_pb2.Launched(meta=fact, driver={"pid": 8}), events_pb2.Running(meta=fact))

    assert (starting.last_error, running.last_error) == (BROKEN, None)


def test_attempts_begin_anew_when_it_settles_or_a_person_wants_it_to_run() -> None:
    scheduled = events_pb2.RelaunchScheduled(meta=FACT, attempt=3)
    down = (*UP, EXITED, scheduled)

    waiting, awakened = dagger(*down), dagger(*down, START)

    assert (waiting.phase, waiting.attempt) == (gateway_pb2.BACKING_OFF, 3)
    assert (awakened.phase, awakened.attempt, awakened.not_before) == (gateway_pb2.PENDING, 0, None)


def test_an_exit_that_was_asked_for_stays_stopping_until_what_is_asked_is_done() -> None:
    issued = events_pb2.StopIssued(meta=FACT, mode=events_pb2.STOP_MODE_DRAIN)
    exited = events_pb2.Exited(meta=FACT, code=0)

    drained = dagger(*UP, STOP, issued, exited)
    stopped = dagger(*UP, STOP, issued, exited, events_pb2.Stopped(meta=FACT))

    assert (drained.phase, drained.driver) == (gateway_pb2.STOPPING, None)
    assert stopped.phase == gateway_pb2.STOPPED


def test_restarts_count_for_ever_and_the_newest_exit_is_kept_with_its_time() -> None:
    scheduled = events_pb2.RelaunchScheduled(meta=FACT, attempt=1)
    again = events_pb2.LaunchIntended(meta=events_pb2.FactMeta(name="d"), version=1)
    fact = events_pb2.FactMeta(name="d", generation=7)
    runs = (events_pb2.Launched(meta=fact, driver={"pid": 8}), events_pb2.Running(meta=fact))
    settled = dagger(*UP, EXITED, scheduled, again, *runs, events_pb2.Settled(meta=fact))
    exited = given(*UP, EXITED)[-1].time

    assert (settled.attempt, settled.restarts, settled.last_error) == (0, 1, None)
    assert settled.last_exit is not None
    assert (settled.last_exit.generation, settled.last_exit.code, settled.last_exit.error) == (2, 1, BROKEN)
    assert settled.last_exit.time.ToDatetime(exited.tzinfo) == exited


def test_a_drain_is_an_exit_without_an_error_and_no_restart() -> None:
    issued = events_pb2.StopIssued(meta=FACT, mode=events_pb2.STOP_MODE_DRAIN)
    drained = dagger(*UP, STOP, issued, events_pb2.Exited(meta=FACT, code=0))

    assert drained.last_exit is not None
    assert (drained.restarts, drained.last_exit.code, drained.last_exit.HasField("error")) == (0, 0, False)


def test_a_dagger_is_shown_with_since_when_it_is_in_its_phase() -> None:
    fleet, _ = folded(*UP)

    assert to_proto(fleet.daggers["d"], fleet).phase_time.ToDatetime(UTC) == given(*UP)[-1].time


def test_adoption_keeps_the_phase_and_names_the_new_epoch() -> None:
    claim = events_pb2.SchedulerStarted(scheduler_id="t", host="here")
    fact = events_pb2.FactMeta(name="d", generation=2, epoch=5)
    adopted = dagger(*UP, claim, events_pb2.Launched(meta=fact, driver=LAUNCHED.driver, adopted=True))

    assert (adopted.phase, adopted.epoch) == (gateway_pb2.RUNNING, 5)


# ---- Records -----------------------------------------------------------------------------------------------


def test_a_record_that_cannot_be_read_is_kept_aside_and_names_the_dagger_it_is_about() -> None:
    fleet = Fleet()
    broken = record(STOP, sequence=0)
    for sequence, kind in enumerate(["daggers.v1.Tomorrow", "daggers.v1.StreamRegistered"]):
        fleet.apply(
            type(broken)(sequence, "x", "/t", kind[-4:], broken.time, kind, message=None, value=b"\xff")
        )

    assert [(event.sequence, event.subject) for event in fleet.unreadable] == [(0, "rrow"), (1, "ered")]
    assert len(fleet.unreadable[0].digest) == 16
    assert fleet.unreadable_daggers == {"rrow"}


def test_a_dagger_whose_history_cannot_be_read_is_not_shown_as_running() -> None:
    fleet, _ = folded(*UP)
    before = to_proto(fleet.daggers["d"], fleet)
    unheard = record(STOP, sequence=fleet.sequence + 1)._replace(type="daggers.v1.Tomorrow", message=None)

    changed = fleet.apply(unheard).changed
    shown = to_proto(fleet.daggers["d"], fleet)

    assert (before.phase, list(before.warnings)) == (gateway_pb2.RUNNING, [])
    assert (changed, shown.phase) == (True, gateway_pb2.DEGRADED)
    assert [warning.split(":")[0] for warning in shown.warnings] == ["HISTORY_UNREADABLE"]


def test_a_record_at_or_below_the_sequence_changes_nothing() -> None:
    fleet, _ = folded(*UP)

    assert fleet.apply(record(EXITED, sequence=3)).refused == "it was applied before"
    assert fleet.sequence == 4


def test_a_message_of_another_topic_changes_nothing() -> None:
    from daggers.v1 import telemetry_pb2

    assert "not an event of the control topic" in folded(telemetry_pb2.Heartbeat(dagger="d"))[1][0].refused


# ---- Catalogue ---------------------------------------------------------------------------------------------


def test_the_catalogue_counts_versions_and_checks_them() -> None:
    new = events_pb2.StreamRegistered(meta=NEW, stream={"name": "s", "topics": ["a"]})
    second = events_pb2.StreamRegistered(
        meta=events_pb2.RequestMeta(expected_version=1), stream={"name": "s", "topics": ["a", "b"]}
    )

    fleet, applied = folded(new, second, second)

    assert refusal(new, new) == (Code.ALREADY_EXISTS, "NAME_TAKEN")
    assert (fleet.streams["s"].version, fleet.streams["s"].sequence) == (2, 1)
    assert applied[2].answer.refusal.code == Code.ABORTED


def test_a_schema_stands_under_each_message_it_defines() -> None:
    first = events_pb2.SchemaRegistered(meta=META, schema={"messages": ["a.X", "a.Y"]})
    second = events_pb2.SchemaRegistered(meta=META, schema={"messages": ["a.Y"]})

    fleet, _ = folded(first, second)

    assert {name: entry.version for name, entry in fleet.messages.items()} == {"a.X": 1, "a.Y": 2}


@pytest.mark.parametrize("name", ["", "..", ".", "a..b", "a/b", "a\0b", "-a", "a" * 129, "ä"])
def test_a_forged_name_that_would_be_the_name_of_another_folder_makes_no_dagger(name: str) -> None:
    forged = events_pb2.DaggerRequested(meta=META, name=name, spec=SQL)

    assert refusal(CLAIM, forged) == (Code.INVALID_ARGUMENT, "INVALID_NAME")
