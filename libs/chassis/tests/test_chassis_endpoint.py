"""Where a service is reached: what files make of it, and an address that is taken."""

from __future__ import annotations

import asyncio
import ssl
import subprocess
from pathlib import Path

import grpc
import pytest

from chassis.connections import FIRST_CALL_S
from chassis.endpoint import CannotBind, Endpoint, endpoint, server_options
from chassis.files import replace_text
from chassis.messages import MAX_MESSAGE

TOKEN = "gateway:0123456789abcdef0123456789abcdef\n"


async def test_a_free_port_is_taken_and_a_taken_one_is_one_clear_error() -> None:
    first, second = grpc.aio.server(options=NO_SHARING), grpc.aio.server(options=NO_SHARING)
    port = Endpoint("127.0.0.1:0").open(first)

    with pytest.raises(CannotBind, match=f"cannot serve on 127.0.0.1:{port}"):
        Endpoint(f"127.0.0.1:{port}").open(second)


NO_SHARING = (("grpc.so_reuseport", 0),)


async def echo(request: bytes, _: object) -> bytes:
    return request


ECHO = grpc.method_handlers_generic_handler("test.Echo", {"Say": grpc.unary_unary_rpc_method_handler(echo)})


def test_an_endpoint_of_files_has_their_tokens_and_shows_none(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)

    made = endpoint("127.0.0.1:0", tokens=tokens)

    assert made.tokens is not None
    assert (list(made.tokens().values()), made.tls) == (["gateway"], False)
    assert "0123456789abcdef" not in repr(made)


def test_a_file_that_is_not_there_is_said_at_the_start(tmp_path: Path) -> None:
    missing = tmp_path / "missing.pem"

    with pytest.raises(OSError, match=r"missing\.pem"):
        endpoint("127.0.0.1:0", certificate=missing, key=missing)


def write_pair(folder: Path, name: str) -> tuple[Path, Path]:
    """A certificate that signs itself for localhost, and its key, over those that are there."""
    certificate, key = folder / "cert.pem", folder / "key.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes",
         "-keyout", "new-key.pem", "-out", "new-cert.pem", "-days", "1", "-subj", f"/CN={name}",
         "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True, cwd=folder, timeout=60,
    )  # fmt: skip
    (folder / "new-cert.pem").replace(certificate)
    (folder / "new-key.pem").replace(key)
    return certificate, key


def name_shown(port: int) -> str:
    """The name of the certificate that a new connection is shown."""
    shown = ssl.get_server_certificate(("127.0.0.1", port), timeout=30)
    done = subprocess.run(
        ["openssl", "x509", "-noout", "-subject", "-nameopt", "multiline"],
        input=shown, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    return done.stdout.split("=")[-1].strip()


async def test_a_replaced_certificate_is_shown_to_new_connections_and_old_ones_go_on(tmp_path: Path) -> None:
    certificate, key = write_pair(tmp_path, "first")
    trust = grpc.ssl_channel_credentials(certificate.read_bytes())
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((ECHO,))
    port = endpoint("127.0.0.1:0", certificate=certificate, key=key).open(server)
    await server.start()
    async with grpc.aio.secure_channel(f"localhost:{port}", trust) as channel:
        say = channel.unary_unary("/test.Echo/Say")
        await say(b"a", timeout=30)
        first = await asyncio.to_thread(name_shown, port)
        write_pair(tmp_path, "second")
        second = await asyncio.to_thread(name_shown, port)
        answer = await say(b"b", timeout=30)
    await server.stop(None)

    assert (first, second, answer) == ("first", "second", b"b")


async def test_half_of_a_new_pair_changes_nothing_until_the_other_half_is_there(tmp_path: Path) -> None:
    certificate, key = write_pair(tmp_path, "first")
    server = grpc.aio.server()
    port = endpoint("127.0.0.1:0", certificate=certificate, key=key).open(server)
    await server.start()
    (other := tmp_path / "other").mkdir()
    new_certificate, new_key = write_pair(other, "second")
    new_certificate.replace(certificate)
    half = await asyncio.to_thread(name_shown, port)
    new_key.replace(key)
    whole = await asyncio.to_thread(name_shown, port)
    await server.stop(None)

    assert (half, whole) == ("first", "second")


def test_a_key_of_another_certificate_is_said_at_the_start(tmp_path: Path) -> None:
    certificate, _ = write_pair(tmp_path, "first")
    (other := tmp_path / "other").mkdir()
    _, key = write_pair(other, "second")

    with pytest.raises(ValueError, match="are not a certificate and its key"):
        endpoint("127.0.0.1:0", certificate=certificate, key=key)


def test_tokens_are_those_of_the_file_as_it_is(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(TOKEN)
    made = endpoint("127.0.0.1:0", tokens=tokens)
    assert made.tokens is not None
    replace_text(tokens, f"{TOKEN}bot:fedcba9876543210fedcba9876543210\n")
    both = list(made.tokens().values())
    replace_text(tokens, "bot:short\n")
    kept = list(made.tokens().values())
    replace_text(tokens, "bot:fedcba9876543210fedcba9876543210\n")

    assert (both, kept, list(made.tokens().values())) == (["gateway", "bot"], ["gateway", "bot"], ["bot"])


async def test_who_is_slow_with_tls_is_not_waited_for(tmp_path: Path) -> None:
    certificate, key = write_pair(tmp_path, "localhost")
    server = grpc.aio.server(options=server_options(MAX_MESSAGE, 10))
    port = endpoint("127.0.0.1:0", certificate=certificate, key=key).open(server)
    await server.start()
    silent, slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
    slow[1].write(b"\x16\x03\x01\x02\x00\x01")  # how a client of TLS begins

    async with asyncio.timeout(6 * FIRST_CALL_S):
        assert [await reader.read() for reader, _ in (silent, slow)] == [b"", b""]
    for _, writer in (silent, slow):
        writer.close()
    await server.stop(grace=None)
