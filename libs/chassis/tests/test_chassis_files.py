"""Files that others read while they are written."""

from pathlib import Path

from chassis.files import replace_bytes, replace_text


def test_a_file_is_replaced_whole_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    replace_text(tmp_path / "f", "one")
    replace_bytes(tmp_path / "f", b"two", durable=True)

    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"f": "two"}


def test_a_private_file_is_its_owners_alone(tmp_path: Path) -> None:
    (tmp_path / "f").touch(mode=0o644)

    replace_text(tmp_path / "f", "secret", private=True)

    assert (tmp_path / "f").stat().st_mode & 0o777 == 0o600
