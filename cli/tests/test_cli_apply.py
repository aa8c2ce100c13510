"""`daggers apply`: what it says it did, whatever the dagger was; and what it says to an older gateway."""

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest

from cli.__main__ import run

NAME = "orders_by_city"


@pytest.fixture
def filled(serve: Any, shell: Any) -> Any:
    """A shell whose gateway has the catalogue and no dagger."""
    shell.fill()
    return shell


def test_apply_says_what_it_did(filled: Any, dagger_file: str) -> None:
    file, other = filled.file("a.yaml", dagger_file), filled.file("b.yaml", f"{dagger_file}emit: early\n")
    said = [filled("apply", "-f", each) for each in (file, file, other)]
    filled("stop", NAME)
    said.append(filled("apply", "-f", other))
    code, out, _ = filled("apply", "-f", other, "-o", "json")

    assert [(done[0], done[1]) for done in said] == [
        (0, f"{NAME} {action}\n") for action in ("created", "unchanged", "updated", "started")
    ]
    assert (code, json.loads(out)["action"], json.loads(out)["name"]) == (0, "unchanged", NAME)


def test_of_two_daggers_of_a_file_none_is_created_when_one_is_refused(filled: Any, dagger_file: str) -> None:
    right = dagger_file.replace(NAME, "first")
    wrong = dagger_file.replace(NAME, "second").replace("SELECT city", "SELECT nope")
    code, _, err = filled("apply", "-f", filled.file("two.yaml", f"{right}---\n{wrong}"))
    left = filled("list", "-o", "json")[1]

    assert (code, "UNKNOWN_COLUMN" in err, "SQL line 1, column 8" in err) == (1, True, True)
    assert {"first", "second"}.isdisjoint(each["name"] for each in json.loads(left))


@pytest.fixture
def old_gateway() -> Iterator[str]:
    """A gateway that knows no call at all."""
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield f"127.0.0.1:{port}"
    server.stop(None).wait()


def test_a_gateway_that_is_too_old_is_told_from_a_refusal(
    old_gateway: str, tmp_path: Any, dagger_file: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "d.yaml").write_text(dagger_file)

    code = run(["apply", "-f", str(tmp_path / "d.yaml"), "--gateway", old_gateway, "-o", "json"])
    error = json.loads(capsys.readouterr().out)["error"]

    assert (code, error["reason"]) == (1, "UNIMPLEMENTED")
    assert error["message"] == (
        f"{NAME}: the gateway at {old_gateway} does not know this call: it is older than its client,"
        " upgrade it"
    )


def test_a_file_is_named_by_its_place_or_by_its_flag_and_not_by_two_names(
    filled: Any, dagger_file: str
) -> None:
    file = filled.file("a.yaml", dagger_file)
    words = [("validate", file), ("validate", "-f", file), ("apply", file), ("apply", file, "-f", file)]

    assert [filled(*each)[0] for each in words] == [0, 0, 0, 0]
    for verb in ("apply", "validate"):
        twice, _, said = filled(verb, file, "-f", "b.yaml")
        none, _, missing = filled(verb)

        assert (twice, none) == (2, 2)
        assert ("name one of them" in said, "FILE is missing" in missing) == (True, True)
