"""Files that others read while they are written."""

import os
import threading
from pathlib import Path

import pytest

from chassis.files import read_plain, replace_bytes, replace_text, touch


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    replace_text(tmp_path / "f", "one")
    replace_bytes(tmp_path / "f", b"two", durable=True)

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"f": "two"}


def test_a_private_file_is_its_owners_alone(tmp_path: Path) -> None:
    (tmp_path / "f").touch(mode=0o644)

    replace_text(tmp_path / "f", "secret", private=True)

    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600


def test_a_file_of_a_folder_is_read_and_what_stands_in_its_place_is_not(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    folder.mkdir()
    outside.write_text("somebody's")
    (folder / "own").write_text("own")
    (folder / "link").symlink_to(outside)
    os.mkfifo(folder / "pipe")  # an open that waited for a writer would hang
    (folder / "below").mkdir()

    assert read_plain(folder / "own") == b"own"
    for name in ("link", "pipe", "below", "nothing"):
        with pytest.raises(FileNotFoundError):
            read_plain(folder / name)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_a_file_of_another_than_the_folders_owner_is_not_read(tmp_path: Path) -> None:
    (tmp_path / "f").write_text("root's, linked there")
    os.chown(tmp_path, 65534, 65534)

    with pytest.raises(FileNotFoundError):
        read_plain(tmp_path / "f")


def test_nothing_is_written_where_a_link_leads(tmp_path: Path) -> None:
    outside, folder = tmp_path / "outside", tmp_path / "folder"
    folder.mkdir()
    outside.write_text("somebody's")
    writing = folder / f".f.{os.getpid()}.{threading.get_ident()}.new"
    writing.symlink_to(outside)
    (folder / "stop").symlink_to(tmp_path / "not there")

    with pytest.raises(OSError, match="symbolic links"):
        replace_text(folder / "f", "ours")
    touch(folder / "stop")
    touch(folder / "new")

    assert outside.read_text() == "somebody's"
    assert not (tmp_path / "not there").exists()
    assert (folder / "new").read_bytes() == b""
