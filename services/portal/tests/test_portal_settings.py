"""Settings that do not fit together are refused before anything is served."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from portal.__main__ import main, read
from portal.settings import PortalSettings


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ({"bind": "0.0.0.0:80"}, "DAGGERS_PORTAL_OIDC_ISSUER"),
        ({"bind": "here"}, "host:port"),
        ({"gateway": "gateway"}, "host:port"),
        ({"oidc_issuer": "https://id.example"}, "go together"),
        ({"oidc_issuer": "http://id.example", "oidc_client_id": "daggers"}, "https://"),
        ({"public_url": "https://portal.example"}, "OIDC_ISSUER"),
        ({"public_url": "https://portal.example/daggers"}, "no path"),
        ({"token_file": __file__}, "KEY_FILE"),
        (
            {"token_file": __file__, "key_file": __file__, "oidc_issuer": "https://i", "oidc_client_id": "d"},
            "not for a portal with a provider",
        ),
    ],
)
def test_what_does_not_fit_is_refused(told: dict[str, str], said: str) -> None:
    with pytest.raises(ValidationError, match=said):
        PortalSettings(**told)  # type: ignore[arg-type]


def test_cookies_of_two_portals_of_one_machine_differ(tmp_path: Path) -> None:
    one, other = (
        read(PortalSettings(bind=f"127.0.0.1:{port}", state_dir=tmp_path)).login_method.cookie
        for port in (81, 82)
    )

    assert one != other


def test_a_portal_by_https_has_a_cookie_that_no_other_host_can_set(tmp_path: Path) -> None:
    told = PortalSettings(
        public_url="https://portal.example",
        oidc_issuer="https://id.example",
        oidc_client_id="daggers",
        state_dir=tmp_path,
    )

    ways = read(told).login_method
    assert (ways.cookie, ways.secure, ways.required) == ("__Host-daggers", True, "provider")


def test_what_no_file_of_ours_sets_an_operator_can_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    notebook = "https://hub.example/new?table={path}"
    monkeypatch.setenv("DAGGERS_PORTAL_STATE_DIR", str(tmp_path))
    monkeypatch.setenv("DAGGERS_PORTAL_NOTEBOOK_URL", notebook)
    monkeypatch.setenv("DAGGERS_CONNECTIONS_PER_ADDRESS", "4000")

    plan = read(PortalSettings())

    assert (plan.links.notebook, plan.connections_per_address) == (notebook, 4000)
    monkeypatch.delenv("DAGGERS_CONNECTIONS_PER_ADDRESS")
    assert read(PortalSettings()).connections_per_address == 1000


def test_a_short_key_is_refused(tmp_path: Path) -> None:
    key = tmp_path / "key"
    key.write_text("short\n")

    with pytest.raises(ValueError, match="less than 32 characters"):
        read(PortalSettings(key_file=key, state_dir=tmp_path))


def test_bad_settings_end_the_process_with_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DAGGERS_PORTAL_BIND", "everywhere")

    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 2
    assert "DAGGERS_PORTAL_BIND" in capsys.readouterr().err
