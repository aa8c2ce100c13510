"""What the command reads from its environment, once, in `cli.__main__`; an extension reads its own."""

from pathlib import Path
from typing import TypeVar

from pydantic import Field, ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from cli.errors import MisusedError
from kafkaclient import settings

Kind = TypeVar("Kind", bound=BaseSettings)


class Settings(BaseSettings):
    """Environment of the `daggers` command; every field has a default that works."""

    model_config = SettingsConfigDict(
        env_prefix="DAGGERS_", frozen=True, env_ignore_empty=True, use_attribute_docstrings=True
    )

    gateway: str | None = None
    """Address of the gateway when neither --gateway nor --state-dir is given: host:port or https://host:port."""

    ca_file: Path | None = None
    """PEM file of the authority that signed the gateway's certificate; the usual ones when unset."""

    token_file: Path | None = None
    """File that holds the token the gateway asks for."""

    state_home: Path = Field(
        default_factory=lambda: Path.home() / ".local" / "state", validation_alias="XDG_STATE_HOME"
    )
    """The user's folder for state: the trace of a crash, which local stack was started last."""


class KafkaLogin(settings.KafkaLogin):
    """How `daggers log` talks to a Kafka that it is told of."""

    model_config = SettingsConfigDict(env_prefix="DAGGERS_")


def read(kind: type[Kind]) -> Kind:
    """The settings of this process. Raises MisusedError with everything that cannot be used."""
    try:
        return kind()
    except ValidationError as error:
        findings = [
            {
                "code": "BAD_SETTING",
                "field": ".".join(map(str, problem["loc"])),
                "message": problem["msg"],
            }
            for problem in error.errors(include_url=False, include_input=False, include_context=False)
        ]
        raise MisusedError(
            "an environment variable has a value that cannot be used", findings=findings
        ) from None
