"""Settings of the gateway, read once by `__main__`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, FilePath, field_validator, model_validator
from pydantic_settings import SettingsConfigDict

from access.limits import CallLimits
from api_gateway.auth.oidc import OidcProvider
from api_gateway.auth.teams import UnknownTeamAction
from api_gateway.validate.reachability import ReachLimits
from chassis.binding import check_secure_url, host_and_port
from chassis.settings import (
    ConnectionSettings,
    EgressSettings,
    FolderSettings,
    HostTokenSettings,
    LoginSettings,
    MetricsSettings,
    SecretPlacesSettings,
    go_together,
    only_loopback_is_open,
)
from daggerspec import folders
from kafkaclient.settings import KafkaSettings


class GatewaySettings(
    EgressSettings,
    FolderSettings,
    SecretPlacesSettings,
    HostTokenSettings,
    ConnectionSettings,
    LoginSettings,
    KafkaSettings,
    MetricsSettings,
):
    """The gRPC API of Daggers: takes requests into the control topic and answers from what it says."""

    model_config = SettingsConfigDict(env_prefix="DAGGERS_GATEWAY_")

    bind: str = "127.0.0.1:50051"
    """Address to serve on, host:port. Anything but loopback needs TLS files and a token file."""

    health_bind: str | None = None
    """Address for health checks alone, host:port, by gRPC's health service without TLS and tokens: who
    reaches it learns whether this gateway serves. Unset: only at the address for calls, until 0.3.0.
    """

    database_url: str = Field(default="sqlite:///daggers-gateway.db", repr=False)
    """Database of the read side: sqlite:///FILE, or postgresql://user:password@host/database. It can be
    rebuilt from the log at any time.
    """

    tls_cert_file: FilePath | None = None
    """PEM file of the server's certificate chain. Read again when it changes, for new connections."""

    tls_key_file: FilePath | None = None
    """PEM file of the certificate's private key. Read again with the certificate."""

    token_file: FilePath | None = None
    """File with one NAME:TOKEN a line, tokens of 16 characters or more. With it, every call needs one. Read
    again when it changes."""

    token_hint: str = ""
    """Hint for people whose token is missing or not valid: where to get one."""

    access: Literal["observe", "enforce"] = "observe"
    """Mode for calls that no role allows (docs/decisions/0056): observe admits and audits them, enforce
    refuses them. Names of the token file are administrators, who may do everything.
    """

    unknown_teams: Literal["refuse", "make"] = "refuse"
    """Action for daggers of an unregistered team, once access is enforced: refuse suggests the most similar
    name, make registers the team where its name is valid. While access is observed they are admitted.
    """

    oidc_issuer: str | None = None
    """The OpenID Connect provider whose ID tokens name people, as they name it: https://HOST/PATH, or http on
    loopback. Its /.well-known/openid-configuration says where its keys are. Unset: none. With it, every call
    needs a token."""

    oidc_audience: str | None = None
    """Audiences of accepted ID tokens: client ids that the provider has for this platform, comma-separated.
    People log in as the first by `daggers login`; the pages may be another (docs/access.md).
    """

    oidc_name_claim: str = "sub"
    """The claim that names a person in roles: user:NAME. email counts when email_verified is true."""

    oidc_groups_claim: str = "groups"
    """The claim that lists a person's groups, for roles of group:NAME."""

    requests_per_second: float = Field(default=100, gt=0)
    """Calls that a principal may make in a second, ten seconds' worth at once. Names of the token file are
    not counted. A tenth of them may write, or check what would be written: thirty seconds' worth of those at
    once. Each gateway counts for itself."""

    host_ca_file: FilePath | None = None
    """PEM file of the authority that signed the schedulers' certificates. Unset: the system's authorities.
    Read again when it changes."""

    reference_places: str = ""
    """Places of reference tables: absolute folders on the drivers' hosts, and base URLs, comma-separated; one
    that contains a comma stands in quotes. Empty: nowhere. Drivers read them with their own permissions.
    """

    consumer_groups: str = ""
    """Prefixes of the consumer groups that daggers may have beside daggers.NAME, comma-separated; in one,
    {team} is the dagger's team. Administrators give a dagger any group."""

    @field_validator("bind", "health_bind")
    @classmethod
    def _host_and_port(cls, bind: str | None) -> str | None:
        if bind is not None:
            host_and_port(bind)
        return bind

    @field_validator("oidc_issuer")
    @classmethod
    def _is_reached_safely(cls, issuer: str | None) -> str | None:
        return None if issuer is None else check_secure_url(issuer)

    @field_validator("oidc_audience")
    @classmethod
    def _names_a_client(cls, audience: str | None) -> str | None:
        if audience is not None and not _split(audience):
            raise ValueError("must name a client id, or several, comma-separated")
        return audience

    @field_validator("database_url")
    @classmethod
    def _known_database(cls, url: str) -> str:
        if not url.startswith(("sqlite:///", "postgresql://")):
            raise ValueError("must begin with sqlite:/// or postgresql://")
        return url

    @field_validator("reference_places")
    @classmethod
    def _absolute_places(cls, places: str) -> str:
        for place in folders.split_words(places):
            if not place.startswith(("/", "http://", "https://")):
                raise ValueError("must be absolute folders and http(s) URLs, comma-separated")
        return places

    @model_validator(mode="after")
    def _only_loopback_is_open(self) -> GatewaySettings:
        go_together(self, "tls_cert_file", "tls_key_file")
        go_together(self, "oidc_issuer", "oidc_audience")
        only_loopback_is_open(self, "bind", "tls_cert_file", "tls_key_file", "token_file")
        return self

    @property
    def unknown_team_action(self) -> UnknownTeamAction:
        """Action for daggers of an unregistered team in the present mode of access."""
        return UnknownTeamAction(self.unknown_teams) if self.access == "enforce" else UnknownTeamAction.ALLOW

    @property
    def provider(self) -> OidcProvider | None:
        """The OpenID Connect provider; None where none is set."""
        if self.oidc_issuer is None or self.oidc_audience is None:
            return None
        audience, *others = _split(self.oidc_audience)
        return OidcProvider(
            self.oidc_issuer,
            audience,
            self.oidc_name_claim,
            self.oidc_groups_claim,
            self.oidc_scope,
            tuple(others),
        )

    @property
    def limits(self) -> CallLimits:
        """Limits of one principal's calls."""
        return CallLimits.of_rate(self.requests_per_second)

    @property
    def bounds(self) -> ReachLimits:
        """Limits of what tenants may reach."""
        groups, below = _split(self.consumer_groups), folders.parse(self.allowed_folders)
        return ReachLimits(self.allowed, groups, below, self.proxies)

    @property
    def allowed_references(self) -> tuple[str, ...]:
        """Folders and base URLs of reference tables."""
        return folders.split_words(self.reference_places)


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(",") if part.strip())
