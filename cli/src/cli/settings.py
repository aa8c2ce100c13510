"""What the command reads from its environment, once, in `cli.__main__`; an extension reads its own.

Nothing here can be wrong, so nothing checks it: what checks takes longer to load than a command to run.
`cli.checked_settings` is for what can be.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Final, Self

VARIABLES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "DAGGERS_GATEWAY": "Address of the gateway when neither --gateway nor --state-dir is given: host:port"
        " or https://host:port.",
        "DAGGERS_CA_FILE": "PEM file of the authority that signed the gateway's certificate; the usual ones"
        " when unset.",
        "DAGGERS_TOKEN_FILE": "File that holds the token the gateway asks for.",
        "XDG_STATE_HOME": "The user's folder for state: the trace of a crash, which local stack was started"
        " last.",
    }
)


@dataclass(frozen=True)
class Settings:
    """The environment of the `daggers` command."""

    gateway: str | None
    ca_file: Path | None
    token_file: Path | None
    state_home: Path

    @classmethod
    def read(cls, environment: Mapping[str, str]) -> Self:
        """The settings that an environment holds; a variable that is empty is not set."""
        gateway, *files = (environment.get(each) or None for each in VARIABLES)
        ca_file, token_file, state_home = (Path(file) if file else None for file in files)
        return cls(gateway, ca_file, token_file, state_home or Path.home() / ".local" / "state")
