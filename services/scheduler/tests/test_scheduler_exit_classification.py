"""How a driver ended, as a fact."""

import pytest
from daggers.v1 import events_pb2
from google.protobuf.json_format import MessageToJson

from scheduler.drivers.exit_classification import classify_exit

USER = events_pb2.ERROR_DOMAIN_USER
EXTERNAL = events_pb2.ERROR_DOMAIN_EXTERNAL
INTERNAL = events_pb2.ERROR_DOMAIN_INTERNAL


@pytest.mark.parametrize(
    ("code", "domain", "reason", "retryable"),
    [
        (64, USER, "USER_ERROR", False),
        (69, EXTERNAL, "EXTERNAL_ERROR", True),
        (70, INTERNAL, "INTERNAL_ERROR", True),
        (75, INTERNAL, "FENCED", False),
        (1, INTERNAL, "DRIVER_FAILED", True),
        (-9, EXTERNAL, "KILLED", True),
        (137, EXTERNAL, "KILLED", True),
        (None, EXTERNAL, "DRIVER_LOST", True),
    ],
)
def test_an_exit_code_alone_says_who_must_act_and_whether_to_try_again(
    code: int | None, domain: events_pb2.ErrorDomain, reason: str, retryable: bool
) -> None:
    error = classify_exit(code, None).error

    assert (error.domain, error.reason, error.retryable) == (domain, reason, retryable)
    assert error.detail


def test_the_drivers_own_word_goes_before_a_guess() -> None:
    left = events_pb2.DaggerError(domain=USER, reason="BAD_SQL", detail="no such column")

    fact = classify_exit(64, MessageToJson(left))

    assert (fact.code, fact.error) == (64, left)


@pytest.mark.parametrize("left", ["", "{", "[]", "null", '{"reason": ""}', '{"reason": 7}'])
def test_a_word_cut_short_is_no_word(left: str) -> None:
    assert classify_exit(69, left).error.reason == "EXTERNAL_ERROR"


def test_a_clean_end_is_no_error_whatever_an_earlier_word_said() -> None:
    assert not classify_exit(0, '{"reason": "OLD"}').HasField("error")
    assert classify_exit(0, None).HasField("code")


def test_a_driver_is_killed_for_memory_only_where_the_kernel_counts_it() -> None:
    gone = MessageToJson(events_pb2.DaggerError(domain=EXTERNAL, reason="JVM_GONE", retryable=True))
    killed = [classify_exit(-9, left, killed_for_memory=True).error for left in (None, gone)]
    unknown = classify_exit(137, None).error

    assert {(each.domain, each.reason, each.retryable) for each in killed} == {(USER, "OUT_OF_MEMORY", True)}
    assert "by whom is unknown" in unknown.detail
    assert (
        classify_exit(
            64, MessageToJson(events_pb2.DaggerError(reason="BAD_SQL")), killed_for_memory=True
        ).error.reason
        == "BAD_SQL"
    )


def test_no_exit_code_is_not_zero() -> None:
    assert not classify_exit(None, None).HasField("code")


def test_a_jvm_that_ended_of_a_full_heap_is_out_of_memory_whatever_its_python_half_has_seen() -> None:
    gone = MessageToJson(events_pb2.DaggerError(domain=EXTERNAL, reason="JVM_GONE", retryable=True))
    found = [classify_exit(3, left, heap_mib=450).error for left in (gone, None)]

    assert {(each.domain, each.reason, each.retryable) for each in found} == {(USER, "OUT_OF_MEMORY", True)}
    assert found[0].detail.startswith("its heap of 450 MiB (driver_memory) was full: ")
    assert classify_exit(3, MessageToJson(events_pb2.DaggerError(reason="BAD_SQL"))).error.reason == "BAD_SQL"
