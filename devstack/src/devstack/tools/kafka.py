"""Kafka's broker as jars, resolved by the Ivy that comes with PySpark, checked against pinned digests."""

import hashlib
from importlib import resources
from pathlib import Path

from cli.errors import RefusedError
from cli.output.progress import Report
from devstack.tools import ivy

VERSION = "4.3.1"
NAME = f"kafka-{VERSION}"
TITLE = f"Kafka {VERSION}"
# slf4j 1.7 needs a binding, else the broker's log stays empty and nobody sees why it does not start.
_DEPENDENCIES = f"""\
<dependency org="org.apache.kafka" name="kafka_2.13" rev="{VERSION}" conf="default->default"/>
<dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.25.4" conf="default->default"/>
"""


def build(part: Path, report: Report, java: Path, *, own_authorities: bool) -> Path:
    """Resolve the jars into `part`; returns the folder to keep. The rest is as in `ivy.retrieve`."""
    jars = ivy.retrieve(
        "kafka", _DEPENDENCIES, part, report, java, own_authorities=own_authorities,
        failure="Kafka's jars could not be resolved: check the network",
    )  # fmt: skip
    verify(jars, digests())
    return jars


def digests() -> dict[str, str]:
    """File name of every jar -> its SHA-256, as pinned beside this module."""
    pinned = resources.files("devstack.tools").joinpath("kafka.sha256").read_text()
    return {name: digest for digest, name in (line.split() for line in pinned.splitlines())}


def verify(jars: Path, pinned: dict[str, str]) -> None:
    """Keep exactly the pinned jars. Raises RefusedError when one is missing or differs, and removes it."""
    wrong = []
    for name, digest in pinned.items():
        jar = jars / name
        if not jar.is_file():
            wrong.append(f"{name} is missing")
        elif hashlib.sha256(jar.read_bytes()).hexdigest() != digest:
            jar.unlink()
            wrong.append(f"{name} is not the pinned one")
    if wrong:
        raise RefusedError(
            f"Kafka's jars are not what they should be: {'; '.join(wrong)}", reason="TOOL_DAMAGED"
        )
    for jar in jars.iterdir():
        if jar.name not in pinned:
            jar.unlink()
