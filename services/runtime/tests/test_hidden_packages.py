"""What a replay of rows has in memory: nothing that it does not use."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import importlib, sys
from runtime.replay.__main__ import HiddenPackages

sys.meta_path.insert(0, HiddenPackages())
import runtime.replay.main
import pyarrow as pa
from runtime import sinks

pa.array([1])  # looks for pandas
for name in sinks.names():
    sinks.load(name)
print(*sorted({"pandas", "rich", "pyspark", "runtime.decode.decoder"} & set(sys.modules)))
"""


def test_no_sink_of_a_replay_loads_spark_or_what_is_installed_for_others() -> None:
    done = subprocess.run([sys.executable, "-P", "-c", SCRIPT], capture_output=True, text=True, check=False)

    assert (done.stdout.strip(), done.stderr, done.returncode) == ("", "", 0)
