"""Slack incoming webhooks."""

from typing import Final

SECRETS: Final = {"url": True}
SETTINGS: Final = {}
