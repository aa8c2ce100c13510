"""The command line without a stack: exit codes, one JSON document, sentences instead of traces."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc
import pytest
from daggers.v1 import events_pb2, gateway_pb2, spec_pb2, telemetry_pb2
from google.protobuf import any_pb2

from chassis.errors import ApiError
from cli import reference
from cli.__main__ import run, wants_json
from cli.commands.init import columns, draft
from cli.errors import CliError, MisusedError, RefusedError
from cli.files.dagger_file import with_place
from cli.files.proto_files import load
from cli.framework.extension import Missing
from cli.framework.gateway import in_words
from cli.output.excerpt import excerpt
from cli.output.json_views.answers import to_json
from daggerclient.daggerfile.parse import DaggerFile, parse
from daggerclient.errors import NotReachedError, failure
from daggerclient.waiting import is_running
from daggerspec.violation import Violation

BOOKING = """\
syntax = "proto3";
package t.v1;
import "google/protobuf/timestamp.proto";
import "place.proto";
message Booking {
  string id = 1;
  google.protobuf.Timestamp at = 2;
  Place place = 3;
}
"""
PLACE = 'syntax = "proto3";\npackage t.v1;\nmessage Place { double lat = 1; }\n'


def daggers(tmp_path: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command as a user without any stack runs it."""
    home = {"XDG_STATE_HOME": str(tmp_path / "state"), "PATH": os.defpath, "HOME": str(tmp_path)}
    return subprocess.run(
        [sys.executable, "-m", "cli", *words],
        capture_output=True, text=True, check=False, env=home, cwd=tmp_path, timeout=60,
    )  # fmt: skip


def worded(error: ApiError) -> CliError:
    """What the command makes of a failed call."""
    return in_words(failure(error, "a:1"))


def error(done: subprocess.CompletedProcess[str]) -> Any:
    return json.loads(done.stdout)["error"]


def test_without_a_stack_a_command_says_how_to_start_one_and_exits_3(tmp_path: Path) -> None:
    done = daggers(tmp_path, "list", "-o", "json")

    assert (done.returncode, error(done)["reason"]) == (3, "NO_GATEWAY")
    assert "daggers local up" in done.stderr


def test_a_gateway_that_does_not_answer_is_named_and_exits_3(tmp_path: Path) -> None:
    with socket.socket() as bound:  # bound, but nobody listens
        bound.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{bound.getsockname()[1]}"
        done = daggers(tmp_path, "get", "x", "--gateway", address, "-o", "json")

    assert (done.returncode, error(done)["address"]) == (3, address)


@pytest.mark.parametrize(
    "words",
    [
        ("bogus",),
        ("get",),
        ("local", "up", "--bogus"),
        ("apply", "-f", "no-such-file.yaml"),
        ("list", "--gateway", "nonsense"),
        ("schema", "register", "no-such-file.proto"),
        ("local", "up", "--influx-org", "o"),
        ("rows", "x", "--limit", "none"),
    ],
)
def test_a_wrong_command_line_exits_2_with_one_document_and_no_trace(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    done = daggers(tmp_path, *words, "-o", "json")

    assert (done.returncode, list(json.loads(done.stdout)), error(done)["reason"]) == (2, ["error"], "USAGE")
    assert "Traceback" not in done.stderr


def test_a_dagger_file_with_errors_exits_1_before_any_gateway_is_asked(tmp_path: Path) -> None:
    (tmp_path / "d.yaml").write_text("name: x\n")

    done = daggers(tmp_path, "apply", "-f", "d.yaml", "-o", "json")

    assert done.returncode == 1
    assert {finding["field"] for finding in error(done)["findings"]} == {
        "team",
        "cluster",
        "streams",
        "sql",
        "sinks",
    }


def test_down_without_a_stack_is_done_already(tmp_path: Path) -> None:
    done = daggers(tmp_path, "local", "down", "--state-dir", str(tmp_path / "none"), "-o", "json")

    assert (done.returncode, json.loads(done.stdout)["stopped"]) == (0, False)


def test_status_without_a_stack_exits_1(tmp_path: Path) -> None:
    done = daggers(tmp_path, "local", "status", "-o", "json")

    assert (done.returncode, error(done)["reason"]) == (1, "NO_STACK")


def test_options_stand_before_the_command_or_behind_it(tmp_path: Path) -> None:
    before = daggers(tmp_path, "-o", "json", "--state-dir", str(tmp_path), "list")

    assert (before.returncode, error(before)["reason"]) == (3, "NO_GATEWAY")


def test_version_is_one_document(capsys: pytest.CaptureFixture[str]) -> None:
    code = run(["version", "-o", "json"])

    assert (code, json.loads(capsys.readouterr().out)["kafka"]) == (0, "4.3.1")


@pytest.mark.parametrize(
    ("words", "code", "reason", "said"),
    [
        (["local", "up", "--detach"], 1, "NOT_INSTALLED", "pip install ./devstack"),
        (["demo", "--seconds", "5"], 1, "NOT_INSTALLED", "pip install ./devstack"),
        (["list"], 3, "NO_GATEWAY", "--gateway HOST:PORT"),
        (["list", "--state-dir", "/s"], 3, "NO_GATEWAY", "is for devstack"),
        (["log", "verify"], 1, "NO_STACK", "--kafka HOST:PORT"),
    ],
)
def test_without_the_embedded_stack_the_command_says_what_to_install_or_to_name(
    words: list[str], code: int, reason: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    done = run([*words, "-o", "json"], Missing())
    answer = json.loads(capsys.readouterr().out)["error"]

    assert (done, answer["reason"]) == (code, reason)
    assert said in answer["message"]


def test_without_the_embedded_stack_the_version_is_the_commands_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert run(["version", "-o", "json"], Missing()) == 0

    assert list(json.loads(capsys.readouterr().out)) == ["daggers"]


def test_every_command_shows_an_example() -> None:
    commands = [each for _, each in reference.commands() if not hasattr(each, "commands")]

    without = [
        command.name for command in commands if not (command.epilog or "").startswith("Example: daggers ")
    ]
    assert without == []


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (["get", "x", "-o", "json"], True),
        (["--output=json", "list"], True),
        (["get", "json", "-o", "text"], False),
    ],
)
def test_json_is_recognised_before_options_are_parsed(words: list[str], wanted: bool) -> None:
    assert wants_json(words) == wanted


def test_imports_are_found_beside_the_file_and_among_the_well_known_types(tmp_path: Path) -> None:
    (tmp_path / "booking.proto").write_text(BOOKING.replace("message", "// A trip.\nmessage", 1))
    (tmp_path / "place.proto").write_text(PLACE)

    schema = load([tmp_path / "booking.proto"], [])

    names = [file.name for file in schema.files.file]
    assert names == ["google/protobuf/timestamp.proto", "place.proto", "booking.proto"]
    assert schema.files.file[-1].HasField("source_code_info")  # the comments of people's own files


def test_imports_are_found_in_further_folders(tmp_path: Path) -> None:
    (tmp_path / "further").mkdir()
    (tmp_path / "booking.proto").write_text(BOOKING)
    (tmp_path / "further" / "place.proto").write_text(PLACE)

    schema = load([tmp_path / "booking.proto"], [tmp_path / "further"])

    assert "place.proto" in [file.name for file in schema.files.file]


def test_a_descriptor_set_is_the_same_as_its_sources(tmp_path: Path) -> None:
    (tmp_path / "booking.proto").write_text(BOOKING)
    (tmp_path / "place.proto").write_text(PLACE)
    compiled = load([tmp_path / "booking.proto"], [])
    (tmp_path / "set.pb").write_bytes(compiled.files.SerializeToString())

    assert load([tmp_path / "set.pb"], []) == compiled


def test_protocs_complaints_come_with_file_and_line(tmp_path: Path) -> None:
    (tmp_path / "bad.proto").write_text('syntax = "proto3";\nmessage A { strin x = 1; }\n')

    with pytest.raises(RefusedError) as caught:
        load([tmp_path / "bad.proto"], [])

    finding = caught.value.findings[0]
    assert (Path(str(finding["file"])).name, finding["line"]) == ("bad.proto", 2)


def test_a_file_that_is_neither_source_nor_descriptors_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.bin").write_bytes(b"\xff\xff")

    with pytest.raises(RefusedError, match=r"neither a \.proto file, a zip of them, nor a descriptor set"):
        load([tmp_path / "x.bin"], [])


def test_an_import_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    (tmp_path / "place.proto").write_text(PLACE)

    with pytest.raises(MisusedError, match="none: there is no such folder"):
        load([tmp_path / "place.proto"], [tmp_path / "none"])


def test_a_finding_in_sql_keeps_its_place_and_gets_a_caret() -> None:
    violation = Violation("spec.sql", "no statsu", "UNKNOWN_COLUMN", 2, 7, 2, 13, "status")
    refused = worded(
        ApiError(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELDS", "no", {}, violations=[violation])
    )
    assert isinstance(refused, RefusedError)

    spec = spec_pb2.DaggerSpec(sql="SELECT 1\nWHERE statsu = 1\n")
    [finding] = with_place(refused, DaggerFile("d", spec, first_lines={"sql": 10}), "d.yaml").findings

    assert (finding["code"], finding["line"], finding["column"]) == ("UNKNOWN_COLUMN", 2, 7)
    assert (finding["suggestion"], finding["file_line"]) == ("status", 11)
    assert finding["source"] == "    WHERE statsu = 1\n          ^^^^^^"


def test_a_finding_in_a_forwarding_keeps_its_place_and_gets_a_caret() -> None:
    violation = Violation("spec.forward.filter", "no statsu", "UNKNOWN_COLUMN", 1, 1, 1, 7, "status")
    refused = worded(
        ApiError(grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELDS", "no", {}, violations=[violation])
    )
    assert isinstance(refused, RefusedError)

    spec = spec_pb2.DaggerSpec(forward={"filter": "statsu = 1"})
    file = DaggerFile("d", spec, first_lines={"forward.filter": 7})
    [finding] = with_place(refused, file, "d.yaml").findings

    assert (finding["field"], finding["line"], finding["file_line"]) == ("forward.filter", 1, 7)
    assert finding["source"] == "    statsu = 1\n    ^^^^^^"


@pytest.mark.parametrize(
    ("line", "place", "shown"),
    [
        ("\t\txy", {"column": 3, "end_line": 1, "end_column": 5}, "    \t\txy\n    \t\t^^"),
        ("a 日本 x", {"column": 3, "end_line": 1, "end_column": 5}, "    a 日本 x\n      ^^^^"),
        ("日 x", {"column": 3}, "    日 x\n       ^"),
        ("SELECT a", {"column": 8, "end_line": 2, "end_column": 3}, "    SELECT a\n           ^"),
        ("SELECT", {"column": 7, "end_line": 1, "end_column": 7}, "    SELECT\n          ^"),
        ("a\x1b[2Jb", {"column": 6}, "    a\ufffd[2Jb\n         ^"),
    ],
)
def test_carets_stand_under_the_place(line: str, place: dict[str, int], shown: str) -> None:
    assert excerpt([line, "x"], {"line": 1, **place}) == shown


def test_a_line_of_megabytes_is_cut_around_the_place() -> None:
    shown = excerpt(
        ["a" * 5_000_000 + "XY" + "b" * 5_000_000], {"line": 1, "column": 5_000_001, "end_column": 5_000_003}
    )

    assert shown is not None
    text, carets = shown.splitlines()
    assert (len(text) < 120, text[carets.index("^") : carets.index("^") + 2], carets.strip()) == (
        True,
        "XY",
        "^^",
    )


def test_an_unreachable_gateway_is_another_exit_code_than_a_refusal() -> None:
    gone = worded(ApiError(grpc.StatusCode.UNAVAILABLE, "UNAVAILABLE", "x", {}))
    refused = worded(ApiError(grpc.StatusCode.NOT_FOUND, "NOT_FOUND", "x", {}))

    assert (gone.exit_code, refused.exit_code) == (3, 1)


def test_a_dagger_is_shown_under_the_keys_of_the_contract() -> None:
    shown = to_json(
        gateway_pb2.Dagger(
            name="d",
            phase=gateway_pb2.RUNNING,
            desired=gateway_pb2.DESIRED_RUNNING,
            version=2,
            generation=17,
            last_error=events_pb2.DaggerError(
                domain=events_pb2.ERROR_DOMAIN_USER, reason="R", detail="D", retryable=True
            ),
        )
    )

    expected = {"name": "d", "phase": "RUNNING", "desired": "RUNNING", "version": 2, "generation": 17}
    assert {key: shown[key] for key in expected} == expected
    assert shown["last_error"] == {"domain": "USER", "reason": "R", "detail": "D", "retryable": True}
    assert shown["warnings"] == []


def test_an_event_is_shown_with_its_message_and_an_unknown_one_without() -> None:
    known = gateway_pb2.Event(sequence=3, type="daggers.v1.Running")
    known.data.Pack(events_pb2.Running(meta=events_pb2.FactMeta(name="d", generation=2)))
    unknown = gateway_pb2.Event(data=any_pb2.Any(type_url="type.googleapis.com/daggers.v9.Later"))

    assert to_json(known)["data"] == {"meta": {"name": "d", "generation": "2"}}
    assert to_json(unknown)["data"] is None


def test_a_quarantined_record_shows_what_could_be_read_of_it() -> None:
    shown = to_json(
        telemetry_pb2.Quarantined(reason="MALFORMED", offset=30, value=b"\xff", decoded_prefix='{"id": "x"}')
    )

    assert (shown["reason"], shown["offset"], shown["value"], shown["decoded_prefix"]) == (
        "MALFORMED", 30, "/w==", {"id": "x"},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("phase", "observed", "running"),
    [
        (gateway_pb2.RUNNING, 2, True),
        (gateway_pb2.RUNNING, 1, False),  # the launch before the one that was asked for
        (gateway_pb2.STARTING, 2, False),
    ],
)
def test_running_means_a_launch_of_the_version_that_was_asked_for(
    phase: gateway_pb2.Phase, observed: int, running: bool
) -> None:
    dagger = gateway_pb2.Dagger(phase=phase, observed_version=observed, version=2)

    assert is_running(dagger, 2) == running


def test_a_wait_that_fails_tells_the_phase_and_the_error() -> None:
    failed = gateway_pb2.Dagger(
        name="d",
        phase=gateway_pb2.FAILED,
        last_error=events_pb2.DaggerError(reason="BAD", detail="no such topic"),
    )

    document = in_words(NotReachedError(failed, "d FAILED")).document()["error"]

    assert (document["phase"], document["message"]) == ("FAILED", "d FAILED: no such topic")


def test_a_drafted_dagger_file_is_a_whole_one(tmp_path: Path) -> None:
    (tmp_path / "booking.proto").write_text(BOOKING)
    (tmp_path / "place.proto").write_text(PLACE)
    schema = load([tmp_path / "booking.proto"], [])
    stream = spec_pb2.Stream(name="bookings", cluster="local", message="t.v1.Booking")

    text = draft(stream, columns(schema, "t.v1.Booking"), "per_minute", "team")
    [dagger] = parse(text, "d.yaml")

    assert (dagger.name, dagger.spec.streams[0].stream) == ("per_minute", "bookings")
    assert "`id` AS tag_id" in dagger.spec.sql


def test_a_drafted_forwarding_is_a_whole_file_too(tmp_path: Path) -> None:
    (tmp_path / "booking.proto").write_text(BOOKING)
    (tmp_path / "place.proto").write_text(PLACE)
    schema = load([tmp_path / "booking.proto"], [])
    stream = spec_pb2.Stream(name="bookings", cluster="local", message="t.v1.Booking")

    text = draft(stream, columns(schema, "t.v1.Booking"), "all_of_them", "team", forward=True)
    [dagger] = parse(text, "d.yaml")

    assert (dagger.spec.sql, dagger.spec.sinks[0].kafka.topic) == ("", "all_of_them")
    assert [field_.name for field_ in dagger.spec.forward.fields] == [
        column.name for column in columns(schema, "t.v1.Booking")
    ]
