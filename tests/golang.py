"""The machine's Go, for the programs that slow tests build from modules."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.maven import LackingError

from devstack.tools import influxd


def find_go(module: str) -> Path:
    """Find a Go that is as new as the text of a go.mod asks for. Raises: LackingError."""
    [(major, minor)] = re.findall(r"^go (\d+)\.(\d+)", module, re.MULTILINE)
    go = influxd.system_go()
    if go is not None:
        answer = subprocess.run([go, "version"], capture_output=True, text=True, check=True).stdout
        if (influxd.parse_version(answer) or (0, 0)) >= (int(major), int(minor)):
            return go
    raise LackingError(f"no Go on the PATH that is {major}.{minor} or newer")
