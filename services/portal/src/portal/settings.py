"""Settings of the portal, read once by `__main__`."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from pydantic import FilePath, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from chassis.binding import check_secure_url, host_and_port, is_loopback
from chassis.settings import (
    ConnectionSettings,
    LoginSettings,
    MetricsSettings,
    go_together,
    only_loopback_is_open,
)


class PortalSettings(ConnectionSettings, LoginSettings, MetricsSettings):
    """The pages of Daggers, in front of a gateway: who is logged in calls it as themselves."""

    model_config = SettingsConfigDict(env_prefix="DAGGERS_PORTAL_")

    bind: str = "127.0.0.1:8080"
    """Address to serve on, host:port. Anything but loopback needs TLS files and a provider."""

    gateway: str = "127.0.0.1:50051"
    """Address of the gateway: HOST:PORT, or https://HOST:PORT for TLS."""

    gateway_ca_file: FilePath | None = None
    """PEM file of the authority that signed the gateway's certificate. Unset: the system's authorities."""

    state_dir: Path = Path("daggers-portal")
    """Directory of the sessions, made where it is not there. Without it everybody logs in again."""

    public_url: str | None = None
    """Address at which browsers reach the portal: https://HOST[:PORT], or http on loopback. Unset: http at
    `bind`. The provider has PUBLIC_URL/auth/callback as redirect address.
    """

    oidc_issuer: str | None = None
    """The OpenID Connect provider that people log in at, as it names itself: https://HOST/PATH, or http on
    loopback. The gateway must trust it, too. Unset: nobody logs in, which only loopback may be without."""

    oidc_client_id: str | None = None
    """The client id that the provider has for these pages; the gateway has it among its audience."""

    oidc_client_secret_file: FilePath | None = None
    """File that holds the client's secret. Unset: a public client."""

    token_file: FilePath | None = None
    """File that holds one token, which the portal shows the gateway for whoever opens it. Only where no
    provider is, and with a key file."""

    key_file: FilePath | None = None
    """File that holds one key of 32 characters or more. With it, without a provider, only who has opened an
    address made of it is let in, each good once: `python -m portal.tickets FILE` prints its path, and of an
    embedded stack `daggers local status`. Unset: every program of this machine is let in."""

    tls_cert_file: FilePath | None = None
    """PEM file of the server's certificate chain."""

    tls_key_file: FilePath | None = None
    """PEM file of the certificate's private key."""

    notebook_url: str | None = None
    """Address of notebooks on tables of cold storage: https://HOST/…, in which {path} stands for the path of
    the table and {table} for its name. Unset: the pages have no link.
    """

    grafana_url: str | None = None
    """Base URL of the Grafana that has the dashboards and the data source of deploy/compose:
    https://HOST[/PATH]. Unset: the pages have no links to it.
    """

    @field_validator("bind")
    @classmethod
    def _host_and_port(cls, bind: str) -> str:
        host_and_port(bind)
        return bind

    @field_validator("gateway")
    @classmethod
    def _is_an_address(cls, gateway: str) -> str:
        host_and_port(gateway.removeprefix("https://"))
        return gateway

    @field_validator("oidc_issuer", "public_url")
    @classmethod
    def _is_reached_safely(cls, url: str | None) -> str | None:
        return None if url is None else check_secure_url(url)

    @field_validator("notebook_url", "grafana_url")
    @classmethod
    def _is_a_page(cls, url: str | None) -> str | None:
        if url is not None and (urlsplit(url).scheme not in ("https", "http") or not urlsplit(url).hostname):
            raise ValueError("must be https://HOST/… or http://HOST/…")
        return url

    @field_validator("public_url")
    @classmethod
    def _has_no_path(cls, url: str | None) -> str | None:
        if url is not None and urlsplit(url).path not in ("", "/"):
            raise ValueError("must have no path")
        return url.rstrip("/") if url else None

    @model_validator(mode="after")
    def _only_loopback_is_open(self) -> PortalSettings:
        go_together(self, "tls_cert_file", "tls_key_file")
        go_together(self, "oidc_issuer", "oidc_client_id")
        only_loopback_is_open(self, "bind", "tls_cert_file", "tls_key_file", "oidc_issuer")
        if self.oidc_issuer is None:
            if not is_loopback(f"{urlsplit(self.origin).hostname}:0"):
                raise ValueError("DAGGERS_PORTAL_PUBLIC_URL is not loopback: set DAGGERS_PORTAL_OIDC_ISSUER")
            if self.token_file and not self.key_file:
                raise ValueError("DAGGERS_PORTAL_TOKEN_FILE needs DAGGERS_PORTAL_KEY_FILE")
        elif self.token_file or self.key_file:
            raise ValueError(
                "DAGGERS_PORTAL_TOKEN_FILE and DAGGERS_PORTAL_KEY_FILE are not for a portal with a provider"
            )
        return self

    @property
    def origin(self) -> str:
        """Origin at which browsers reach the portal: a URL without a path."""
        return self.public_url or f"http{'s' if self.tls_cert_file else ''}://{self.bind}"
