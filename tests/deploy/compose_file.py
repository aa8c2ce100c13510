"""The Compose file as data: what a service is given, how it is called, which secrets it finds."""

from __future__ import annotations

import importlib.util
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
COMPOSE = ROOT / "deploy" / "compose"
TEXT = (COMPOSE / "compose.yaml").read_text()
SERVICES: dict[str, dict[str, Any]] = yaml.safe_load(TEXT)["services"]


def read_environment(name: str, **operators: str) -> dict[str, str]:
    """Return the environment of a service when the operator says this and nothing else."""
    return {
        variable: _fill_in(str(value), operators) for variable, value in SERVICES[name]["environment"].items()
    }


def read_command(name: str, **operators: str) -> list[str]:
    """Return the command line of a service when the operator says this and nothing else."""
    return [_fill_in(word, operators) for word in SERVICES[name]["command"]]


def _fill_in(value: str, operators: Mapping[str, str]) -> str:
    """Fill variables in, the innermost first: one may be another's default."""
    inner = re.compile(r"\$\{(\w+)(?::-([^${}]*))?\}")
    while match := inner.search(value):
        value = f"{value[: match.start()]}{operators.get(match[1]) or match[2] or ''}{value[match.end() :]}"
    return value


def write_secrets(root: Path) -> dict[str, str]:
    """Make what the container `secrets` makes, in a folder of volumes; return each file's text."""
    for volume in ("gateway", "client", "influx", "grafana", "host", "kafka", "portal", "spark"):
        (root / volume).mkdir(exist_ok=True)
    script = COMPOSE / "image" / "secrets.sh"
    subprocess.run(["sh", script, root], check=True, capture_output=True, timeout=60)
    return {str(file.relative_to(root)): file.read_text() for file in root.rglob("*") if file.is_file()}


def load_script(name: str) -> ModuleType:
    """Import a script of the image."""
    spec = importlib.util.spec_from_file_location(name, COMPOSE / "image" / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
