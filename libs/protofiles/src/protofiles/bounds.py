"""Limits of a compilation in memory, time and output, and the exit code for too little memory."""

from __future__ import annotations

from typing import Final

MEMORY: Final = 768 * 1024 * 1024
"""Address space, in bytes."""
CPU_S: Final = 15
"""Processor time, in seconds."""
MAX_WRITTEN: Final = 64 * 1024 * 1024
"""Size of any file that the process writes, in bytes."""
OUT_OF_MEMORY: Final = 3
"""Exit code of a process that reached `MEMORY`."""
