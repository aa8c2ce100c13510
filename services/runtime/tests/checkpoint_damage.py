"""Helpers of test_checkpoint_damage.py and of its neighbours."""

from __future__ import annotations

from pathlib import Path


def write(path: Path, text: str = "v1\n{}\n") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def committed(own: Path, batches: int = 3, name: str = "plan") -> Path:
    """The checkpoint of a query with a state, after so many batches, in the checkpoint root of a dagger."""
    path = own / "checkpoints" / name
    write(path / "metadata", '{"id": "x"}')
    write(path / "source-start" / "0")
    for batch in range(batches):
        write(path / "offsets" / str(batch))
        write(path / "commits" / str(batch))
        for partition in range(2):
            write(path / "state" / "0" / str(partition) / f"{batch + 1}.delta")
    return path
