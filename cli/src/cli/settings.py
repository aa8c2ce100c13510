"""Settings of the command from its environment, read once, in `cli.__main__`; extensions read their own.

Any value is valid, so nothing checks them: importing a checker takes longer than running a command. Settings
that may be invalid are in `cli.checked_settings`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

from cli.output.hints import COMMAND

VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "DAGGERS_GATEWAY": "Address of the gateway when neither --gateway nor --state-dir is given: host:port"
        " or https://host:port.",
        "DAGGERS_CA_FILE": "PEM file of the authority that signed the gateway's certificate; the usual ones"
        " when unset.",
        "DAGGERS_TOKEN_FILE": "File that holds the token the gateway asks for; it goes before a login.",
        "DAGGERS_GATEWAY_PROXY": "HTTP proxy that stands before the gateway: http://host:port; http_proxy and"
        " the like are not asked for it.",
        "DAGGERS_OIDC_PROXY": "HTTP proxy to the provider, http://host:port, or direct; as http_proxy,"
        " https_proxy and no_proxy say when unset.",
        "DAGGERS_OIDC_ISSUER": "The provider that `daggers login` goes to when the gateway names none.",
        "DAGGERS_OIDC_CLIENT_ID": "Whose client the command is there.",
        "DAGGERS_COMMAND": "What hints call the command: `docker compose run --rm daggers` in Compose.",
        "XDG_STATE_HOME": "The user's folder for state: the trace of a crash, which local stack was started"
        " last from each checkout, logins.",
    }
)


@dataclass(frozen=True)
class CommandSettings:
    """The environment of the `daggers` command."""

    gateway: str | None
    ca_file: Path | None
    token_file: Path | None
    state_home: Path
    oidc_issuer: str | None
    oidc_client_id: str | None
    gateway_proxy: str | None = None
    command: str = COMMAND

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """Read the settings of an environment; an empty variable counts as unset."""

        def file(name: str) -> Path | None:
            return Path(environment[name]) if environment.get(name) else None

        return cls(
            gateway=environment.get("DAGGERS_GATEWAY") or None,
            ca_file=file("DAGGERS_CA_FILE"),
            token_file=file("DAGGERS_TOKEN_FILE"),
            state_home=file("XDG_STATE_HOME") or Path.home() / ".local" / "state",
            oidc_issuer=environment.get("DAGGERS_OIDC_ISSUER") or None,
            oidc_client_id=environment.get("DAGGERS_OIDC_CLIENT_ID") or None,
            gateway_proxy=environment.get("DAGGERS_GATEWAY_PROXY") or None,
            command=environment.get("DAGGERS_COMMAND") or COMMAND,
        )
