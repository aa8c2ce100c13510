"""PagerDuty Events API v2."""

from typing import Final

SECRETS: Final = {"routing_key": True, "url": False}
SETTINGS: Final = {}
