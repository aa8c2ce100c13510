"""A DaggerSpec as a dagger file writes it: the inverse of `parse`."""

from typing import Any

import yaml
from daggers.v1 import spec_pb2

from daggerclient.daggerfile.table import SPEC, shown


def to_document(spec: spec_pb2.DaggerSpec) -> dict[str, Any]:
    """The specification under the keys of a dagger file, without the name."""
    return shown(spec, SPEC)


def to_yaml(document: dict[str, Any]) -> str:
    """The text of a dagger file; several lines of SQL become a block."""
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
