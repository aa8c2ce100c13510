"""Files as people bring them: sources, archives, descriptor sets. Names, sizes and texts are judged. Pure.

Nothing of an archive is written anywhere, and none of it is unpacked beyond what the limits take.
"""

from __future__ import annotations

import stat
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from typing import Final

from protofiles.problems import Problem

MAX_FILES: Final = 200
"""Protobuf sources that are compiled at once, what they import among them."""
MAX_UNPACKED: Final = 8 * 1024 * 1024
"""Bytes of all that was brought, archives unpacked."""
MAX_ENTRIES: Final = 10_000
"""Entries of an archive, whatever they are."""
MAX_PATH: Final = 400
"""Characters of a name with its folders."""
MAX_PART: Final = 200
"""Bytes of a folder's or a file's own name."""
SUFFIX: Final = ".proto"
_ARCHIVE: Final = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_ENCRYPTED: Final = 0x1
_FIRST_PRINTABLE: Final = " "
_MIB: Final = 1024 * 1024
_UTF8_MARK: Final = b"\xef\xbb\xbf"
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_NOISE: Final = ("__MACOSX/",)


@dataclass(frozen=True, slots=True)
class Brought:
    """One file as somebody brings it."""

    path: str
    """Its name, folders before it divided by slashes."""
    content: bytes


@dataclass(slots=True)
class Bundle:
    """What is in the files that were brought."""

    sources: dict[str, str] = field(default_factory=dict)
    """Text of each .proto source, by its path."""
    sets: dict[str, bytes] = field(default_factory=dict)
    """Descriptor sets, serialised, by their names."""
    left_out: list[str] = field(default_factory=list)
    """Files of archives that are no sources."""
    problems: list[Problem] = field(default_factory=list)
    unpacked: int = 0
    """Bytes of all that was read."""


def unpack(files: Sequence[Brought]) -> Bundle:
    """All that was brought; what may not be is among its problems, and in nothing else."""
    bundle = Bundle()
    for file in files:
        if file.path.endswith(SUFFIX):
            _add_source(bundle, file.path, file.content)
        elif file.content.startswith(_ARCHIVE):
            _add_archive(bundle, file)
        elif _take(bundle, file.path, len(file.content)):
            bundle.sets[file.path] = file.content
    if len(bundle.sources) > MAX_FILES:
        text = f"{len(bundle.sources)} .proto files are too many: at most {MAX_FILES} are compiled at once"
        bundle.problems.append(Problem("", 0, 0, "TOO_MANY_FILES", text))
    if not (bundle.sources or bundle.sets or bundle.problems):
        text = "there is no .proto file, and no descriptor set"
        bundle.problems.append(Problem("", 0, 0, "NO_SOURCES", text))
    return bundle


def path_problem(path: str) -> str | None:
    """Why no file may be called so; None when one may."""
    parts = path.split("/")
    if not path or path.startswith("/") or path[1:2] == ":":
        return "must be a path from the top of what was brought, and neither empty nor absolute"
    if ".." in parts:
        return "must not lead out of what was brought: its path has .."
    if "\\" in path or any(character < _FIRST_PRINTABLE or character == "\x7f" for character in path):
        return "must have neither backslashes nor control characters in its path"
    if any(part in ("", ".") for part in parts):
        return "must have a name for each folder of its path"
    if len(path) > MAX_PATH or any(len(part.encode(errors="replace")) > MAX_PART for part in parts):
        return f"must have a path of at most {MAX_PATH} characters, {MAX_PART} bytes a name"
    return None


def _add_archive(bundle: Bundle, archive: Brought) -> None:
    try:
        opened = zipfile.ZipFile(BytesIO(archive.content))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        _refuse(bundle, archive.path, "NO_ARCHIVE", f"is no zip that can be read: {error}")
        return
    entries = [entry for entry in opened.infolist() if not entry.is_dir()]
    if len(entries) > MAX_ENTRIES:
        text = f"has {len(entries)} files, and may have at most {MAX_ENTRIES}"
        _refuse(bundle, archive.path, "TOO_MANY_FILES", text)
        return
    sources = [entry for entry in entries if not _is_left_out(bundle, entry)]
    if len(sources) > MAX_FILES:
        text = f"has {len(sources)} .proto files, and may have at most {MAX_FILES}"
        _refuse(bundle, archive.path, "TOO_MANY_FILES", text)
        return
    declared = sum(entry.file_size for entry in sources)
    if declared > MAX_UNPACKED:
        text = f"unpacks to {declared} bytes, and may to at most {MAX_UNPACKED} ({MAX_UNPACKED // _MIB} MiB)"
        _refuse(bundle, archive.path, "TOO_LARGE", text)
        return
    for entry in sources:
        _add_entry(bundle, opened, entry)


def _is_left_out(bundle: Bundle, entry: zipfile.ZipInfo) -> bool:
    name = entry.filename
    if name.startswith(_NOISE):
        return True
    if name.endswith(SUFFIX):
        return False
    if (why := path_problem(name)) is not None:
        _refuse(bundle, name, "INVALID_PATH", why)
    else:
        bundle.left_out.append(name)
    return True


def _add_entry(bundle: Bundle, opened: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    name = entry.filename
    mode = entry.external_attr >> 16
    if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
        _refuse(bundle, name, "LINK", "is a link or a device, and must be a file")
        return
    if entry.flag_bits & _ENCRYPTED:
        _refuse(bundle, name, "ENCRYPTED", "is encrypted: bring an archive without a password")
        return
    room = MAX_UNPACKED - bundle.unpacked
    try:
        with opened.open(entry) as file:
            content = file.read(room + 1)  # of what says it is small, too
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError, OSError) as error:
        _refuse(bundle, name, "NO_ARCHIVE", f"cannot be unpacked: {error}")
        return
    _add_source(bundle, name, content)


def _add_source(bundle: Bundle, path: str, content: bytes) -> None:
    if (why := path_problem(path)) is not None:
        _refuse(bundle, path, "INVALID_PATH", why)
        return
    if not _take(bundle, path, len(content)):
        return
    if path in bundle.sources:
        if bundle.sources[path].encode() != content.removeprefix(_UTF8_MARK):
            _refuse(bundle, path, "DUPLICATE", "is there twice, with different texts")
        return
    wrong = next(_encoding(path, content), None)
    if wrong is not None:
        bundle.problems.append(wrong)
        return
    bundle.sources[path] = content.removeprefix(_UTF8_MARK).decode()


def _take(bundle: Bundle, path: str, size: int) -> bool:
    """Count bytes in; whether there was room for them."""
    if bundle.unpacked + size > MAX_UNPACKED:
        text = f"is too much: all files together may have {MAX_UNPACKED} bytes ({MAX_UNPACKED // _MIB} MiB)"
        _refuse(bundle, path, "TOO_LARGE", text)
        return False
    bundle.unpacked += size
    return True


def _encoding(path: str, content: bytes) -> Iterator[Problem]:
    """What is wrong with the bytes of a text."""
    if content.startswith(_UTF16_MARKS):
        yield Problem(path, 1, 1, "ENCODING", "is UTF-16: save it as UTF-8")
        return
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line, column = _place(content, error.start)
        text = f"is not UTF-8: byte 0x{content[error.start]:02x} begins no character; save it as UTF-8"
        yield Problem(path, line, column, "ENCODING", text)
        return
    zero = content.find(b"\0")
    if zero >= 0:
        yield Problem(path, *_place(content, zero), "ENCODING", "is no text: it has a byte 0")


def _place(content: bytes, offset: int) -> tuple[int, int]:
    """Line and column of a byte, from 1, in code points."""
    before = content[:offset].removeprefix(_UTF8_MARK)
    last = before[before.rfind(b"\n") + 1 :]
    return before.count(b"\n") + 1, len(last.decode()) + 1


def _refuse(bundle: Bundle, path: str, reason: str, message: str) -> None:
    bundle.problems.append(Problem(path, 0, 0, reason, message))
