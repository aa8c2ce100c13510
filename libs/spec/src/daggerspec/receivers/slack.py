"""Slack incoming webhooks."""

from collections.abc import Mapping
from typing import Final

from daggerspec.receivers import Setting

SECRETS: Final = {"url": True}
SETTINGS: Final[Mapping[str, Setting]] = {}
ACKNOWLEDGES: Final = False
