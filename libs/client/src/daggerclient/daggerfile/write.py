"""The text of a dagger file."""

from typing import Any

import yaml


def to_yaml(document: dict[str, Any]) -> str:
    """Write a document as YAML; text of several lines becomes a block, invisible characters are escaped."""
    text = _dump(document, allow_unicode=True)
    return text if text.replace("\n", "").isprintable() else _dump(document, allow_unicode=False)


def _dump(document: dict[str, Any], *, allow_unicode: bool) -> str:
    return yaml.dump(document, Dumper=_Dumper, sort_keys=False, allow_unicode=allow_unicode, width=120)


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as a block."""


def _text(dumper: yaml.SafeDumper, text: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style="|" if "\n" in text else None)


_Dumper.add_representer(str, _text)
