"""Uploaded files: unpacks archives, checks paths, sizes and encodings. Pure.

An archive is unpacked in memory only, and no further than the limits allow.
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
"""Protobuf sources of one compilation, imported ones included."""
MAX_UNPACKED: Final = 8 * 1024 * 1024
"""Size of all files together, archives unpacked, in bytes."""
MAX_ENTRIES: Final = 10_000
"""Entries of an archive, of any type."""
MAX_PATH: Final = 400
"""Length of a path, in characters."""
MAX_PART: Final = 200
"""Length of one component of a path, in bytes: a limit of most file systems."""
SUFFIX: Final = ".proto"
_ARCHIVE: Final = (b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")
_ENCRYPTED: Final = 0x1
_FIRST_PRINTABLE: Final = " "
_MIB: Final = 1024 * 1024
_UTF8_MARK: Final = b"\xef\xbb\xbf"
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_NOISE: Final = ("__MACOSX/",)


@dataclass(frozen=True, slots=True)
class UploadedFile:
    """File of a caller: a .proto source, a zip of them, or a serialised descriptor set."""

    path: str
    """Relative, with slashes between its components."""
    content: bytes


@dataclass(slots=True)
class Bundle:
    """Contents of uploaded files, sorted by type."""

    sources: dict[str, str] = field(default_factory=dict)
    """Text of each .proto source, by path."""
    sets: dict[str, bytes] = field(default_factory=dict)
    """Serialised descriptor sets, by path."""
    left_out: list[str] = field(default_factory=list)
    """Paths of archive entries that are no .proto sources."""
    problems: list[Problem] = field(default_factory=list)
    unpacked: int = 0
    """Size of all contents so far, in bytes."""


def unpack(files: Sequence[UploadedFile]) -> Bundle:
    """Sort uploaded files by type and unpack archives; a file that is refused is among the problems only."""
    bundle = Bundle()
    for file in files:
        if file.path.endswith(SUFFIX):
            _add_source(bundle, file.path, file.content)
        elif file.content.startswith(_ARCHIVE):
            _add_archive(bundle, file)
        elif _reserve_bytes(bundle, file.path, len(file.content)):
            bundle.sets[file.path] = file.content
    if len(bundle.sources) > MAX_FILES:
        text = f"{len(bundle.sources)} .proto files are too many: at most {MAX_FILES} are compiled at once"
        bundle.problems.append(Problem("", 0, 0, "TOO_MANY_FILES", text))
    if not (bundle.sources or bundle.sets or bundle.problems):
        text = "there is no .proto file, and no descriptor set"
        bundle.problems.append(Problem("", 0, 0, "NO_SOURCES", text))
    return bundle


def find_path_problem(path: str) -> str | None:
    """Check a relative path; return what is wrong with it, as the rest of a sentence, or None."""
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


def _add_archive(bundle: Bundle, archive: UploadedFile) -> None:
    try:
        opened = zipfile.ZipFile(BytesIO(archive.content))
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError) as error:
        _add_problem(bundle, archive.path, "NO_ARCHIVE", f"is no zip that can be read: {error}")
        return
    entries = [entry for entry in opened.infolist() if not entry.is_dir()]
    if len(entries) > MAX_ENTRIES:
        text = f"has {len(entries)} files, and may have at most {MAX_ENTRIES}"
        _add_problem(bundle, archive.path, "TOO_MANY_FILES", text)
        return
    sources = [entry for entry in entries if not _is_left_out(bundle, entry)]
    if len(sources) > MAX_FILES:
        text = f"has {len(sources)} .proto files, and may have at most {MAX_FILES}"
        _add_problem(bundle, archive.path, "TOO_MANY_FILES", text)
        return
    declared = sum(entry.file_size for entry in sources)
    if declared > MAX_UNPACKED:
        text = f"unpacks to {declared} bytes, and may to at most {MAX_UNPACKED} ({MAX_UNPACKED // _MIB} MiB)"
        _add_problem(bundle, archive.path, "TOO_LARGE", text)
        return
    for entry in sources:
        _add_entry(bundle, opened, entry)


def _is_left_out(bundle: Bundle, entry: zipfile.ZipInfo) -> bool:
    name = entry.filename
    if name.startswith(_NOISE):
        return True
    if name.endswith(SUFFIX):
        return False
    if (why := find_path_problem(name)) is not None:
        _add_problem(bundle, name, "INVALID_PATH", why)
    else:
        bundle.left_out.append(name)
    return True


def _add_entry(bundle: Bundle, opened: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    name = entry.filename
    mode = entry.external_attr >> 16
    if mode and not stat.S_ISREG(mode) and stat.S_IFMT(mode):
        _add_problem(bundle, name, "LINK", "is a link or a device, and must be a file")
        return
    if entry.flag_bits & _ENCRYPTED:
        _add_problem(bundle, name, "ENCRYPTED", "is encrypted: bring an archive without a password")
        return
    room = MAX_UNPACKED - bundle.unpacked
    try:
        with opened.open(entry) as file:
            content = file.read(room + 1)  # a declared size may be false
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, EOFError, ValueError, OSError) as error:
        _add_problem(bundle, name, "NO_ARCHIVE", f"cannot be unpacked: {error}")
        return
    _add_source(bundle, name, content)


def _add_source(bundle: Bundle, path: str, content: bytes) -> None:
    if (why := find_path_problem(path)) is not None:
        _add_problem(bundle, path, "INVALID_PATH", why)
        return
    if not _reserve_bytes(bundle, path, len(content)):
        return
    if path in bundle.sources:
        if bundle.sources[path].encode() != content.removeprefix(_UTF8_MARK):
            _add_problem(bundle, path, "DUPLICATE", "is there twice, with different texts")
        return
    problem = next(_find_encoding_problems(path, content), None)
    if problem is not None:
        bundle.problems.append(problem)
        return
    bundle.sources[path] = content.removeprefix(_UTF8_MARK).decode()


def _reserve_bytes(bundle: Bundle, path: str, size: int) -> bool:
    """Count bytes against MAX_UNPACKED; return False, and add a problem, when they do not fit."""
    if bundle.unpacked + size > MAX_UNPACKED:
        text = f"is too much: all files together may have {MAX_UNPACKED} bytes ({MAX_UNPACKED // _MIB} MiB)"
        _add_problem(bundle, path, "TOO_LARGE", text)
        return False
    bundle.unpacked += size
    return True


def _find_encoding_problems(path: str, content: bytes) -> Iterator[Problem]:
    """Yield at most one problem: the text is not UTF-8, or has a byte 0."""
    if content.startswith(_UTF16_MARKS):
        yield Problem(path, 1, 1, "ENCODING", "is UTF-16: save it as UTF-8")
        return
    try:
        content.decode()
    except UnicodeDecodeError as error:
        line, column = _locate(content, error.start)
        text = f"is not UTF-8: byte 0x{content[error.start]:02x} begins no character; save it as UTF-8"
        yield Problem(path, line, column, "ENCODING", text)
        return
    zero = content.find(b"\0")
    if zero >= 0:
        yield Problem(path, *_locate(content, zero), "ENCODING", "is no text: it has a byte 0")


def _locate(content: bytes, offset: int) -> tuple[int, int]:
    """Return line and column of a byte, both from 1; columns count code points."""
    before = content[:offset].removeprefix(_UTF8_MARK)
    last = before[before.rfind(b"\n") + 1 :]
    return before.count(b"\n") + 1, len(last.decode()) + 1


def _add_problem(bundle: Bundle, path: str, reason: str, message: str) -> None:
    bundle.problems.append(Problem(path, 0, 0, reason, message))
