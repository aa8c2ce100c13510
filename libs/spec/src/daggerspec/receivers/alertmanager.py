"""Alertmanager, by its API v2."""

from typing import Final

SECRETS: Final = {"url": True}
SETTINGS: Final = {}
