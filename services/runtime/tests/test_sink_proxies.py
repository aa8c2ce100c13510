"""Sinks reach servers that are outside by the environment's proxy, and those on loopback never."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import grpc
import pytest
from botocore.exceptions import HTTPClientError
from daggers.v1 import spec_pb2
from services.runtime.tests import httpserver
from services.runtime.tests.certificates import context_of_server, self_signed
from services.runtime.tests.collectors import CleverTap, Mixpanel
from services.runtime.tests.httpserver import Reply, Server
from services.runtime.tests.sink_cases import clevertap, elasticsearch, http, mixpanel
from services.runtime.tests.sink_contract import batch, influx_sink, many, target
from tests.forwardproxy import ForwardProxy, serving

from chassis.egress.proxies import VARIABLES
from runtime import sinks
from runtime.clients import calls, sending
from runtime.clients.files import s3
from runtime.clients.http import client
from runtime.errors import JobError, TemporaryError
from runtime.references import fetching
from runtime.sinks import influx

OUTSIDE = "outside.invalid"
"""A name that no resolver has: it is the proxy's to know."""


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sending, "PATIENCE_S", 0.3)
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    yield
    client.pool.clear()
    influx._write_service.cache_clear()


@pytest.fixture
def server() -> Iterator[Server]:
    with httpserver.serving() as made:
        yield made


@pytest.fixture(params=["", "me:pass word"])
def proxy(
    server: Server, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> Iterator[ForwardProxy]:
    """The proxy of the environment, which may ask who calls."""
    with serving({OUTSIDE: int(server.url.rpartition(":")[2])}, request.param) as made:
        url = made.url.replace(" ", "%20")
        monkeypatch.setenv("http_proxy", url)
        monkeypatch.setenv("HTTPS_PROXY", url)
        yield made


def to_influx(url: str, folder: Path) -> spec_pb2.ResolvedSink:
    (folder / "token").write_text("t")
    return influx_sink({"url": url, "org": "o", "bucket": "b", "token_file": str(folder / "token")}, "m")


def collector(make: Callable[[Server], Any]) -> Callable[[Server], None]:
    return lambda server: make(server) and None


def answers(reply: Reply) -> Callable[[Server], None]:
    def prepare(server: Server) -> None:
        server.answer = lambda _: reply

    return prepare


KINDS: dict[str, tuple[Callable[[str, Path], spec_pb2.ResolvedSink], Callable[[Server], None]]] = {
    "http": (lambda url, _: http.sink(url), answers(Reply())),
    "clevertap": (clevertap.sink, collector(CleverTap)),
    "mixpanel": (mixpanel.sink, collector(Mixpanel)),
    "elasticsearch": (lambda url, _: elasticsearch.sink(url), answers(Reply(body=b'{"errors": false}'))),
    "influx": (to_influx, answers(Reply(204))),
}


@pytest.mark.parametrize("is_judged", [False, True], ids=["registered", "a tenant's"])
@pytest.mark.parametrize("name", KINDS)
def test_rows_for_a_server_outside_go_by_the_proxy(
    server: Server, proxy: ForwardProxy, tmp_path: Path, name: str, is_judged: bool
) -> None:
    sink, prepare = KINDS[name]
    prepare(server)
    made = sink(f"http://{OUTSIDE}", tmp_path)
    if is_judged:
        made.egress.CopyFrom(spec_pb2.Egress(hosts=OUTSIDE, enforce=True))

    assert sinks.open_writer(target("d", made)).write(batch(many(2)), 0).refused == []
    assert server.received
    assert proxy.asked
    assert [each for each in proxy.asked if f"http://{OUTSIDE}/" not in each] == []


@pytest.mark.parametrize("name", KINDS)
def test_rows_for_a_server_outside_that_speaks_tls_go_through_a_tunnel_of_the_proxy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    certificate = self_signed(tmp_path, "server", about=f"DNS:{OUTSIDE}")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate.file))
    sink, prepare = KINDS[name]
    with httpserver.serving(tls=context_of_server(certificate)) as server:
        prepare(server)
        port = int(server.url.rpartition(":")[2])
        with serving({OUTSIDE: port}, "me:password") as proxy:
            monkeypatch.setenv("https_proxy", proxy.url)
            written = sinks.open_writer(target("d", sink(f"https://{OUTSIDE}:{port}", tmp_path)))

            assert written.write(batch(many(2)), 0).refused == []
            assert server.received
            assert set(proxy.asked) == {f"CONNECT {OUTSIDE}:{port}"}


@pytest.mark.parametrize("name", KINDS)
def test_rows_for_loopback_and_for_who_is_exempt_never_do(
    server: Server, proxy: ForwardProxy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    sink, prepare = KINDS[name]
    prepare(server)

    assert sinks.open_writer(target("d", sink(server.url, tmp_path))).write(batch(many(2)), 0).refused == []
    monkeypatch.setenv("no_proxy", f"x,{OUTSIDE}")
    with pytest.raises(TemporaryError):  # directly, nobody knows it
        sinks.open_writer(target("d", sink(f"http://{OUTSIDE}", tmp_path))).write(batch(many(2)), 0)
    assert proxy.asked == []


@pytest.mark.parametrize("name", KINDS)
def test_a_tenant_reaches_nothing_inward_by_the_proxy(
    server: Server, proxy: ForwardProxy, tmp_path: Path, name: str
) -> None:
    sink, _ = KINDS[name]
    made = sink("http://169.254.169.254", tmp_path)
    made.egress.CopyFrom(spec_pb2.Egress(enforce=True))
    with pytest.raises(JobError) as refused:
        sinks.open_writer(target("d", made)).write(batch(many(2)), 0)

    assert refused.value.error.reason == "SINK_ADDRESS_REFUSED"
    assert proxy.asked == []


def test_a_call_of_grpc_outside_goes_by_the_proxy_and_one_on_loopback_never(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called: list[bytes] = []

    class Taking(grpc.GenericRpcHandler):
        def service(self, details: Any) -> Any:
            return grpc.unary_unary_rpc_method_handler(lambda request, _: called.append(request) or b"")

    server = grpc.server(futures.ThreadPoolExecutor(2), handlers=(Taking(),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        with serving({OUTSIDE: port}) as proxy:
            monkeypatch.setenv("http_proxy", proxy.url)
            outside = f"{OUTSIDE}:{port}"
            for host, asked in ((f"127.0.0.1:{port}", []), (outside, [f"CONNECT {outside}"])):
                answer = calls.ask(calls.Server(host, "a.B/C", is_plain=True))

                assert answer.status == grpc.StatusCode.OK
                assert proxy.asked == asked
    finally:
        calls.pool.clear()
        server.stop(0)


@pytest.mark.parametrize("is_plain", [True, False])
def test_a_call_of_grpc_is_refused_where_its_proxy_is_one_that_grpc_cannot_use(
    is_plain: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for scheme in ("http", "https"):
        monkeypatch.setenv(f"{scheme}_proxy", "https://who:canary@127.0.0.1:1")
    with pytest.raises(JobError) as refused:
        calls.ask(calls.Server(f"{OUTSIDE}:1", "a.B/C", is_plain=is_plain))

    error = refused.value.error
    assert (error.reason, error.retryable) == ("SINK_ADDRESS_REFUSED", True)
    assert "https proxy" in error.detail
    assert "canary" not in error.detail


def test_an_s3_outside_is_asked_by_the_proxy_and_one_on_loopback_never(
    server: Server, proxy: ForwardProxy
) -> None:
    rules = spec_pb2.Egress(hosts=f"{OUTSIDE}, 127.0.0.1", enforce=True)
    for url, asked in ((server.url, 0), (f"http://{OUTSIDE}", 1)):
        s3.client(url, "r", "n", "s", rules).get_object(Bucket="b", Key="k")

        assert len(proxy.asked) == asked
    with pytest.raises(HTTPClientError, match="DAGGERS_ALLOWED_HOSTS"):
        s3.client("http://169.254.169.254", "r", "n", "s", rules).get_object(Bucket="b", Key="k")
    assert len(proxy.asked) == 1


def test_a_reference_outside_is_read_by_the_proxy_and_one_on_loopback_never(
    server: Server, proxy: ForwardProxy
) -> None:
    server.answer = lambda _: Reply(body=b"{}")

    assert [fetching.fetch(f"{url}/t.json") for url in (server.url, f"http://{OUTSIDE}")] == [b"{}", b"{}"]
    assert proxy.asked == [f"GET http://{OUTSIDE}/t.json"]
