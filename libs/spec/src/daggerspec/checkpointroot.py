"""Roots of checkpoints: a directory of this host, or a URI of another file system. Pure."""

from __future__ import annotations

from urllib.parse import urlsplit


def directory(root: str) -> str | None:
    """Return the directory of this host that a root names; None for one on another file system.

    A path is taken as it is: # and ? are letters in it, and %41 is no A. So is that of a file: URI, but for
    what stands behind those two.
    """
    if root.startswith("/"):
        return root
    parts = urlsplit(root)
    return parts.path if parts.scheme in ("", "file") else None


def scheme(root: str) -> str:
    """Return the scheme of a root on another file system: hdfs, s3a and the like."""
    return urlsplit(root).scheme


def is_root(root: str) -> bool:
    """Return whether a text is a root of checkpoints: an absolute directory, or a URI with host and path.

    Spark's checkpoints refuse a URI that leaves its host to Hadoop's `fs.defaultFS`.
    """
    if root.startswith("/"):
        return True
    parts = urlsplit(root)
    placed = bool(parts.netloc) or parts.scheme == "file"
    return placed and parts.path.startswith("/") and not (parts.query or parts.fragment)
