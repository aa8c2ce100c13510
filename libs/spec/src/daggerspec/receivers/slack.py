"""Slack incoming webhooks."""

from collections.abc import Mapping
from typing import Final

from daggerspec.receivers import Setting

SECRETS: Final = {"url": True, "signing_secret": False}
SETTINGS: Final[Mapping[str, Setting]] = {}
ACKNOWLEDGES: Final = False
TAKES_ANNOUNCEMENTS: Final = True
