"""Settings that may be wrong, of commands that start more than a call: read when such a command begins."""

from typing import TypeVar

from pydantic import ValidationError
from pydantic_settings import BaseSettings, SettingsConfigDict

from cli.errors import MisusedError
from kafkaclient import settings

Kind = TypeVar("Kind", bound=BaseSettings)


class KafkaLogin(settings.KafkaLogin):
    """Connection of `daggers log` to a given Kafka."""

    model_config = SettingsConfigDict(env_prefix="DAGGERS_")


def read(kind: type[Kind]) -> Kind:
    """Read the settings of this process. Raises: MisusedError with all invalid ones."""
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
