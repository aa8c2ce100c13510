"""Live DNS rebinding: a real resolver, asked by the C library, that changes its answer after the check."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
APART = ["unshare", "--mount", "--net"]


def _may_be_apart() -> bool:
    if shutil.which("unshare") is None or shutil.which("ip") is None:
        return False
    return subprocess.run([*APART, "true"], capture_output=True).returncode == 0


@pytest.mark.skipif(not _may_be_apart(), reason="a network of its own needs root (unshare --net)")
def test_connections_go_to_the_address_that_was_judged_whatever_the_name_leads_to_by_then() -> None:
    """Asked first, each name leads to a public address, and then to loopback, where a server listens, too."""
    program = [sys.executable, "-m", "services.runtime.tests.rebinding"]
    done = subprocess.run([*APART, *program], capture_output=True, text=True, timeout=120, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)

    assert set(found) == {"pool", "connector", "transport", "addresses"}
    for client, seen in found.items():
        first, second = seen["attempts"]
        # At the first attempt the judged address is connected to, though the name leads inward by then.
        assert (seen["public"], seen["loopback"]) == (1, 0), (client, seen)
        assert first != "AddressRefused", (client, seen)
        assert second == "AddressRefused", (client, seen)
