"""Where a service is reached: what files make of it, and an address that is taken."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from chassis.endpoint import CannotBind, Endpoint, endpoint

TOKEN = "gateway:0123456789abcdef0123456789abcdef\n"


async def test_a_free_port_is_taken_and_a_taken_one_is_one_clear_error() -> None:
    first, second = grpc.aio.server(options=NO_SHARING), grpc.aio.server(options=NO_SHARING)
    port = Endpoint("127.0.0.1:0").open(first)

    with pytest.raises(CannotBind, match=f"cannot serve on 127.0.0.1:{port}"):
        Endpoint(f"127.0.0.1:{port}").open(second)


NO_SHARING = (("grpc.so_reuseport", 0),)


def test_an_endpoint_of_files_has_their_tokens_and_shows_none(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)

    made = endpoint("127.0.0.1:0", tokens=tokens)

    assert made.tokens is not None
    assert (list(made.tokens.values()), made.tls) == (["gateway"], False)
    assert "0123456789abcdef" not in repr(made)


def test_a_file_that_is_not_there_is_said_at_the_start(tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"

    with pytest.raises(OSError, match=r"missing\.pem"):
        endpoint("127.0.0.1:0", certificate=missing, key=missing)
