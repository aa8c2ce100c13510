"""What a job dies of: told in one sentence, through the JVM and back, and never with a secret."""

from pathlib import Path

import pytest
from daggers.v1 import events_pb2, spec_pb2

from daggerspec import anew, exits
from runtime import errors
from runtime.clients.secrets import resolve
from runtime.errors import FencedError, JobError, TemporaryError, as_json, explain

TO = "http://influx:8086"


def through_the_jvm(error: BaseException) -> Exception:
    """As Spark hands it back: only text, with traces around it."""
    return RuntimeError(
        "Job aborted due to stage failure:\n  Traceback (most recent call last):\n"
        f"runtime.errors.{type(error).__name__}: {error}\n\tat org.apache.spark.Whatever\n... 34 more"
    )


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (errors.user("NO_SINK_ADDRESS", "The sink has no address."), 64),
        (errors.external("SINK_MISSING", "There is no such topic.", retryable=True), 69),
        (errors.internal("BAD_SPEC", "The file is damaged."), 70),
        (TemporaryError("SINK_UNAVAILABLE", "It does not answer."), 69),
        (FencedError(3, 9), 75),
    ],
)
def test_an_error_keeps_its_words_and_its_exit_code_through_the_jvm(error: JobError, code: int) -> None:
    told = explain(through_the_jvm(error))

    assert (told, exits.code(told)) == (error.error, code)


def test_the_cause_of_an_exception_is_what_is_told() -> None:
    cause = errors.user("BAD", "It is wrong.")
    outer = ValueError("something else")
    outer.__cause__ = cause

    assert explain(outer) == cause.error


def test_an_unknown_failure_is_ours_and_carries_no_trace() -> None:
    told = explain(KeyError("Traceback (most recent call last): secret-value"))

    assert (told.domain, told.reason, told.retryable) == (errors.INTERNAL, "UNEXPECTED", True)
    assert "secret-value" not in told.detail


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("java.io.IOException: No space left on device", "DISK_FULL"),
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] …: No space left on device", "DISK_FULL"),
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] …: Connection refused", "NO_CONNECTION"),
        ("Error reading delta file /x/3.delta …: java.net.SocketTimeoutException", "NO_CONNECTION"),
        ("org.apache.spark.SparkException: Python worker exited unexpectedly (crashed)", "WORKER_DIED"),
        ("IllegalStateException: Cannot call methods on a stopped SparkContext.", "NO_EXECUTORS"),
        ("Job 7 cancelled because SparkContext was shut down", "NO_EXECUTORS"),
    ],
)
def test_what_spark_says_of_its_host_is_told_as_such(text: str, reason: str) -> None:
    told = explain(RuntimeError(text))

    assert (told.domain, told.reason, told.retryable) == (errors.EXTERNAL, reason, True)


@pytest.mark.parametrize(
    ("text", "damaged"),
    [
        ("[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] Error …", True),
        ("[CANNOT_LOAD_STATE_STORE.CANNOT_READ_MISSING_SNAPSHOT_FILE] Error …", True),
        ("[CANNOT_LOAD_STATE_STORE.CANNOT_FIND_BASE_SNAPSHOT_CHECKPOINT] Cannot …", True),
        ("[CANNOT_LOAD_STATE_STORE.UNEXPECTED_FILE_SIZE] Copied …", True),
        ("[CANNOT_LOAD_STATE_STORE.INVALID_CHANGE_LOG_READER_VERSION] The …", True),
        ("[CANNOT_LOAD_STATE_STORE.AUTO_SNAPSHOT_REPAIR_FAILED] Failed …", True),
        ("java.lang.IllegalStateException: Error reading snapshot file /x/3.snapshot", True),
        ("java.lang.IllegalStateException: batch 7 doesn't exist", True),
        ("[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error …", False),
        ("[CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR] x: RocksDB instance …", False),
        ("[CANNOT_LOAD_STATE_STORE.FAILED_TO_GET_CHANGELOG_WRITER] Failed …", False),
    ],
)
def test_a_checkpoint_is_called_damaged_only_where_spark_speaks_of_its_files(
    text: str, damaged: bool
) -> None:
    assert (explain(RuntimeError(text)).reason == anew.DAMAGED) is damaged


@pytest.mark.parametrize(
    "text", ["MemoryError", "pyarrow.lib.ArrowMemoryError: malloc of size 8000000 failed", "OutOfMemoryError"]
)
def test_who_takes_too_much_memory_is_the_query_and_may_be_tried_again(text: str) -> None:
    told = explain(RuntimeError(f"org.apache.spark.api.python.PythonException: Traceback …\n{text}\n"))

    assert (told.domain, told.reason, told.retryable) == (errors.USER, "OUT_OF_MEMORY", True)
    assert ("worker" in told.detail) == (text != "OutOfMemoryError")


def test_a_detail_is_one_line_of_bounded_length() -> None:
    told = errors.user("LONG", "first\n\n  second " + "x" * 5000).error

    assert told.detail.startswith("first second x")
    assert len(told.detail) == 1000


def test_exit_json_is_the_error_as_protobuf_json() -> None:
    text = as_json(errors.external("X", "Why.", retryable=True).error)

    assert text == '{"domain": "ERROR_DOMAIN_EXTERNAL", "reason": "X", "detail": "Why.", "retryable": true}'


def test_a_secret_in_a_file_loses_its_last_newline(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(" user:pass \n\n")

    assert resolve(spec_pb2.SecretRef(file=str(tmp_path / "token")), TO) == " user:pass"


def test_a_secret_in_the_environment_is_read_when_it_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEST_JOB_TOKEN", "user:pass")

    assert resolve(spec_pb2.SecretRef(env="TEST_JOB_TOKEN"), TO) == "user:pass"


@pytest.mark.parametrize(
    ("reference", "named"),
    [
        (spec_pb2.SecretRef(env="TEST_JOB_NOT_SET"), "TEST_JOB_NOT_SET"),
        (spec_pb2.SecretRef(file="/no/such/token"), "/no/such/token"),
        (spec_pb2.SecretRef(), "neither"),
    ],
)
def test_a_secret_that_is_not_there_is_named_by_its_reference(
    reference: spec_pb2.SecretRef, named: str
) -> None:
    with pytest.raises(JobError) as missing:
        resolve(reference, TO)

    assert missing.value.error.reason == "SECRET_MISSING"
    assert missing.value.error.domain == events_pb2.ERROR_DOMAIN_EXTERNAL
    assert named in missing.value.error.detail


def test_a_secret_file_whose_text_is_being_replaced_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "token"
    file.touch()
    monkeypatch.setattr("runtime.clients.secrets.time.sleep", lambda _: file.write_text("new"))

    assert resolve(spec_pb2.SecretRef(file=str(file)), TO) == "new"


@pytest.mark.parametrize("content", ["\n", ""])
def test_an_empty_secret_is_refused(tmp_path: Path, content: str) -> None:
    (tmp_path / "token").write_text(content)

    with pytest.raises(JobError, match="There is nothing in the secret file"):
        resolve(spec_pb2.SecretRef(file=str(tmp_path / "token")), TO)
