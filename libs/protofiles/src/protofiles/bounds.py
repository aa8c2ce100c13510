"""What a compilation may take, and how its process says that it took more."""

from __future__ import annotations

from typing import Final

MEMORY: Final = 768 * 1024 * 1024
"""Bytes of address space."""
CPU_S: Final = 15
"""Processor time."""
MAX_WRITTEN: Final = 64 * 1024 * 1024
"""Bytes of one file that it writes."""
OUT_OF_MEMORY: Final = 3
"""Exit code."""
