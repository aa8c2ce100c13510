"""Standard Webhooks: a JSON document that is signed."""

from collections.abc import Mapping
from typing import Final

from daggerspec.receivers import Setting

SECRETS: Final = {"url": True, "key": True}
SETTINGS: Final[Mapping[str, Setting]] = {}
ACKNOWLEDGES: Final = False
TAKES_ANNOUNCEMENTS: Final = True
