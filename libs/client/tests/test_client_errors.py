"""What ends a call: told by kind, and without the words of any one program."""

from pathlib import Path

import grpc
import pytest

from chassis.errors import ApiError, invalid
from daggerclient import RefusedError, SettingError, Silence, UnreachableError
from daggerclient.channel import channel, token
from daggerclient.errors import failure
from daggerspec.violation import Violation

UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize(
    ("code", "cause", "silence"),
    [
        (UNAVAILABLE, "failed to connect to all addresses", Silence.NOBODY),
        (UNAVAILABLE, "Ssl handshake failed: CERTIFICATE_VERIFY_FAILED", Silence.UNTRUSTED),
        (UNAVAILABLE, "Ssl handshake failed: WRONG_VERSION_NUMBER", Silence.NO_TLS),
        (UNAVAILABLE, "Socket closed", Silence.CLOSED),
        (grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded", Silence.LATE),
    ],
)
def test_why_nobody_answered_is_told_by_kind(code: grpc.StatusCode, cause: str, silence: Silence) -> None:
    error = failure(ApiError(code, code.name, cause, {}), "g:1")

    assert isinstance(error, UnreachableError)
    assert (error.silence, error.cause, error.reason) == (silence, cause, code.name)
    assert error.message.startswith("the gateway at g:1 ")


def test_a_gateway_that_cannot_reach_its_log_is_not_silent() -> None:
    error = failure(ApiError(UNAVAILABLE, "LOG_UNAVAILABLE", "Kafka is away", {}), "g:1")

    assert isinstance(error, UnreachableError)
    assert (error.silence, error.reason, error.message) == (None, "LOG_UNAVAILABLE", "Kafka is away")


def test_a_refusal_has_every_violation() -> None:
    violations = [Violation("spec.team", "is missing", "MISSING"), Violation("name", "is taken", "TAKEN")]

    error = failure(invalid(violations), "g:1")

    assert isinstance(error, RefusedError)
    assert (error.code, list(error.violations)) == (grpc.StatusCode.INVALID_ARGUMENT, violations)


@pytest.mark.parametrize("address", ["gateway", "gateway:x", "ftp://gateway:1", ":1", ""])
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(SettingError) as refused:
        channel(address)

    assert refused.value.setting == "address"


@pytest.mark.parametrize("text", ["", "one\ntwo\n", "a b", "t\N{LATIN SMALL LETTER O WITH DIAERESIS}"])
def test_a_file_that_holds_no_token_is_refused_and_not_repeated(text: str, tmp_path: Path) -> None:
    (tmp_path / "token").write_text(text)

    with pytest.raises(SettingError, match=r"token must hold one token, and nothing else$") as refused:
        token(tmp_path / "token")

    assert refused.value.setting == "token_file"
