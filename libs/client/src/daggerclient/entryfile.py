"""A file of one thing that is registered: `kind:`, its name, and what else it has."""

from collections.abc import Sequence

import yaml

from daggerclient.daggerfile.reader import Reader
from daggerclient.errors import InvalidFileError
from daggerclient.findings import headline


def begin_entry(
    text: str, file: str, kind: str, keys: Sequence[str]
) -> tuple[Reader, yaml.Node, dict[str, yaml.Node]]:
    """Begin to read a file; return its reader, its document, and the values of its keys.

    Raises: InvalidFileError when it is no YAML, or empty.
    """
    reader = Reader(file)
    try:
        node = yaml.compose(text, Loader=yaml.SafeLoader)
    except (yaml.YAMLError, RecursionError) as error:
        raise InvalidFileError(f"{file} is not YAML: {str(error).splitlines()[0]}") from error
    if node is None:
        raise InvalidFileError(f"{file} holds no {kind}: it is empty")
    reader.begin(node)
    values = reader.mapping(node, "", ("kind", "name", *keys), ("kind", "name"))
    if "kind" in values:
        reader.choice(values["kind"], "kind", (kind,))
    return reader, node, values


def finish_entry(reader: Reader) -> None:
    """Check that a file was read without findings. Raises: InvalidFileError with all of them."""
    if reader.findings:
        raise InvalidFileError(f"{reader.file}: {headline(reader.findings)}", reader.findings)
