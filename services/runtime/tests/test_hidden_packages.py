"""Check that the processes of a dagger load no package that they do not use."""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """
import importlib, sys
from runtime.hidden_packages import NAMES, hide_packages

hide_packages()
for name in {modules!r}:
    importlib.import_module(name)
import pyarrow as pa
from runtime import sinks

pa.array([1])  # looks for pandas
for name in sinks.names():
    sinks.load(name)
print(*sorted({{*NAMES, *{others!r}}} & set(sys.modules)))
"""


@pytest.mark.parametrize(
    ("modules", "others"),
    [
        pytest.param(("runtime.replay.main",), ("pyspark", "runtime.decode.decoder"), id="replay"),
        pytest.param(("runtime.launch.main", "runtime.preview.main"), (), id="driver"),
        pytest.param(
            ("pyspark.worker", "runtime.launch.delivery", "runtime.source.datasource"), (), id="worker"
        ),
    ],
)
def test_no_process_loads_what_is_installed_for_others(
    modules: tuple[str, ...], others: tuple[str, ...]
) -> None:
    script = SCRIPT.format(modules=modules, others=others)
    done = subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=False)

    assert (done.stdout.strip(), done.stderr, done.returncode) == ("", "", 0)
