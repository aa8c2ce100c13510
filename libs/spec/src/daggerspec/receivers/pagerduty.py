"""PagerDuty Events API v2."""

from collections.abc import Mapping
from typing import Final

from daggerspec.receivers import Setting

SECRETS: Final = {"routing_key": True, "url": False, "webhook_secret": False}
SETTINGS: Final[Mapping[str, Setting]] = {}
ACKNOWLEDGES: Final = True
TAKES_ANNOUNCEMENTS: Final = False
