from __future__ import annotations

from pathlib import Path

import pytest

from api_gateway.settings import GatewaySettings
from chassis.binding import is_loopback
from chassis.settings import load


@pytest.fixture(autouse=True)
def _kafka(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGGERS_GATEWAY_KAFKA_BOOTSTRAP_SERVERS", "127.0.0.1:9092")


def refused(capsys: pytest.CaptureFixture[str]) -> list[str]:
    with pytest.raises(SystemExit) as ended:
        load(GatewaySettings, [], prog="gateway")
    assert ended.value.code == 2
    return capsys.readouterr().err.splitlines()[1:-1]


def test_it_serves_on_loopback_unless_told_otherwise() -> None:
    found = load(GatewaySettings, [], prog="gateway")

    assert found.bind == "127.0.0.1:50051"
    assert (found.tls_key_file, found.tls_cert_file, found.token_file) == (None, None, None)


@pytest.mark.parametrize(
    ("bind", "loopback"),
    [
        ("127.0.0.1:1", True),
        ("127.9.9.9:1", True),
        ("[::1]:1", True),
        ("localhost:1", True),
        ("0.0.0.0:1", False),
        ("[::]:1", False),
        ("10.0.0.7:1", False),
        ("gateway.internal:1", False),
        ("localhost.example.com:1", False),
    ],
)
def test_loopback_is_this_machine_only(bind: str, loopback: bool) -> None:
    assert is_loopback(bind) == loopback


def test_another_address_without_tls_and_tokens_is_refused_in_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAGGERS_GATEWAY_BIND", "0.0.0.0:50051")

    assert refused(capsys) == [
        "  DAGGERS_GATEWAY_BIND 0.0.0.0:50051 is not loopback: set DAGGERS_GATEWAY_TLS_CERT_FILE,"
        " DAGGERS_GATEWAY_TLS_KEY_FILE, DAGGERS_GATEWAY_TOKEN_FILE, or bind to 127.0.0.1"
    ]


def test_another_address_with_tls_and_tokens_is_fine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DAGGERS_GATEWAY_BIND", "0.0.0.0:50051")
    for name in ("TLS_CERT_FILE", "TLS_KEY_FILE", "TOKEN_FILE"):
        (tmp_path / name).touch()
        monkeypatch.setenv(f"DAGGERS_GATEWAY_{name}", str(tmp_path / name))

    found = load(GatewaySettings, [], prog="gateway")

    assert (found.tls_key_file, found.tls_cert_file) == (
        tmp_path / "TLS_KEY_FILE",
        tmp_path / "TLS_CERT_FILE",
    )


def test_every_bad_setting_is_said_at_once_without_its_value(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAGGERS_GATEWAY_BIND", "50051")
    monkeypatch.setenv("DAGGERS_GATEWAY_DATABASE_URL", "mysql://me:hunter2@db/x")
    monkeypatch.setenv("DAGGERS_GATEWAY_TOKEN_FILE", "/nowhere/tokens")
    monkeypatch.delenv("DAGGERS_GATEWAY_KAFKA_BOOTSTRAP_SERVERS")

    assert refused(capsys) == [
        "  DAGGERS_GATEWAY_KAFKA_BOOTSTRAP_SERVERS: Field required",
        "  DAGGERS_GATEWAY_BIND: must be host:port, for example 127.0.0.1:50051",
        "  DAGGERS_GATEWAY_DATABASE_URL: must begin with sqlite:/// or postgresql://",
        "  DAGGERS_GATEWAY_TOKEN_FILE: Path does not point to a file",
    ]


def test_what_no_file_of_ours_sets_an_operator_can_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    authority = tmp_path / "hosts.pem"
    authority.touch()
    told = {
        "DAGGERS_GATEWAY_OIDC_ISSUER": "https://id.example",
        "DAGGERS_GATEWAY_OIDC_AUDIENCE": "daggers",
        "DAGGERS_GATEWAY_OIDC_GROUPS_CLAIM": "roles",
        "DAGGERS_OIDC_SCOPE": "openid profile",
        "DAGGERS_GATEWAY_REQUESTS_PER_SECOND": "300",
        "DAGGERS_GATEWAY_HOST_CA_FILE": str(authority),
        "DAGGERS_GATEWAY_CONSUMER_GROUPS": "crm., {team}-",
        "DAGGERS_CONNECTIONS_PER_ADDRESS": "2000",
        "DAGGERS_OUTWARD_PROXY": "http://proxy.example:3128",
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)

    found = load(GatewaySettings, [], prog="gateway")

    assert found.provider is not None
    assert (found.provider.groups_claim, found.provider.scope) == ("roles", "openid profile")
    assert (found.limits.requests_per_second, found.limits.writes_per_second) == (300, 30)
    assert (found.host_ca_file, tuple(found.bounds.groups)) == (authority, ("crm.", "{team}-"))
    assert found.connections_per_address == 2000
    assert found.proxies.of("https", "id.example", 443) == "http://proxy.example:3128"


def test_a_setting_that_is_gone_is_refused_among_all_that_is_bad(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAGGERS_GATEWAY_BIND", "50051")
    monkeypatch.setenv("DAGGERS_GATEWAY_DRAIN_S", "30")
    monkeypatch.setenv("DAGGERS_GATEWAY_SECRET_PLACES", "/etc/daggers '*' '*'")

    assert refused(capsys) == [
        "  DAGGERS_GATEWAY_BIND: must be host:port, for example 127.0.0.1:50051",
        "  DAGGERS_GATEWAY_DRAIN_S is no setting any more: unset it: calls have 10 seconds after SIGTERM",
        "  DAGGERS_GATEWAY_SECRET_PLACES is no setting any more: set DAGGERS_SECRET_PLACES instead",
    ]


def test_a_certificate_without_its_key_is_refused(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "cert.pem").touch()
    monkeypatch.setenv("DAGGERS_GATEWAY_TLS_CERT_FILE", str(tmp_path / "cert.pem"))

    assert refused(capsys) == ["  DAGGERS_GATEWAY_TLS_CERT_FILE and DAGGERS_GATEWAY_TLS_KEY_FILE go together"]
