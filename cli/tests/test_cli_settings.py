from __future__ import annotations

from cli.settings import CommandSettings


def test_where_to_log_in_is_read_where_the_gateway_does_not_say() -> None:
    told = {"DAGGERS_OIDC_ISSUER": "https://id.example", "DAGGERS_OIDC_CLIENT_ID": "daggers-command"}

    found, without = CommandSettings.read(told), CommandSettings.read(dict.fromkeys(told, ""))

    assert (found.oidc_issuer, found.oidc_client_id) == ("https://id.example", "daggers-command")
    assert (without.oidc_issuer, without.oidc_client_id) == (None, None)
