"""Helpers of test_lease_hadoop.py and of its neighbours."""

from __future__ import annotations


def link(table: str) -> str:
    """The setting that mounts something at /data of a mount table."""
    return f"fs.viewfs.mounttable.{table}.link./data"
