"""Wheels that the embedded stack brings: pip takes the one that is pinned and no other."""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

import pytest

from cli.errors import RefusedError
from devstack.tools.pip import install_wheel


def wheel(folder: Path, content: str) -> Path:
    """A wheel of one module, as an index would have it."""
    file = folder / "tool-1.0-py3-none-any.whl"
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("tool.py", content)
        archive.writestr("tool-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: tool\nVersion: 1.0\n")
        archive.writestr(
            "tool-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr("tool-1.0.dist-info/RECORD", "")
    return file


def test_a_wheel_of_the_same_version_that_is_another_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    digest = hashlib.sha256(wheel(tmp_path, "GOOD = 1").read_bytes()).hexdigest()
    lock = tmp_path / "tool.lock"
    lock.write_text(f"tool==1.0 \\\n    --hash=sha256:{digest}\n")

    install_wheel(lock, tmp_path / "tool", lambda _: None, otherwise="do without")
    installed = (tmp_path / "tool" / "tool.py").read_text()
    wheel(tmp_path, "BAD = 1")
    with pytest.raises(RefusedError, match=r"^do without: tool==1\.0 could not be installed by pip"):
        install_wheel(lock, tmp_path / "tool", lambda _: None, otherwise="do without")

    assert installed == "GOOD = 1"
    assert not (tmp_path / "tool").exists()
