"""Standard Webhooks: a JSON document that is signed."""

from typing import Final

SECRETS: Final = {"url": True, "key": True}
SETTINGS: Final = {}
