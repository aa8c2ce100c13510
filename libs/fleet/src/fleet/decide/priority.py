"""Tell which daggers are critical: they start first, and a drain moves them last. Pure."""

from __future__ import annotations

from fleet.fold.dagger import Dagger


def is_critical(dagger: Dagger) -> bool:
    """Tell whether the owners of a dagger call it critical. No specification can say so yet."""
    del dagger
    return False
