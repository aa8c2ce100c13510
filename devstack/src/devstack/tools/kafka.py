"""Kafka's broker as jars, resolved by the Ivy that comes with PySpark, checked against pinned digests."""

import hashlib
import importlib.util
from importlib import resources
from pathlib import Path

from cli.errors import RefusedError
from cli.progress import Report
from devstack.tools import truststore
from devstack.tools.run import run

VERSION = "4.3.1"
NAME = f"kafka-{VERSION}"
TITLE = f"Kafka {VERSION}"
# slf4j 1.7 needs a binding, else the broker's log stays empty and nobody sees why it does not start.
IVY_FILE = f"""\
<ivy-module version="2.0">
  <info organisation="daggers" module="kafka"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="kafka_2.13" rev="{VERSION}" conf="default->default"/>
    <dependency org="org.apache.logging.log4j" name="log4j-slf4j-impl" rev="2.25.4" conf="default->default"/>
  </dependencies>
</ivy-module>
"""


def build(part: Path, report: Report, java: Path, *, own_authorities: bool) -> Path:
    """Resolve the jars into `part`; returns the folder to keep.

    java: the program to run Ivy with.
    own_authorities: give it the certificate authorities of this Python in place of its own.
    """
    description, jars = part / "ivy.xml", part / "jars"
    description.write_text(IVY_FILE)
    options = ["-XX:TieredStopAtLevel=1"]
    if own_authorities and (certificates := truststore.trusted()):
        truststore.write(part / "authorities.jks", certificates)
        options.append(f"-Djavax.net.ssl.trustStore={part / 'authorities.jks'}")
    run(
        [java, *options, "-jar", ivy(), "-cache", part / "cache", "-ivy", description,
         "-confs", "default", "-retrieve", jars / "[artifact]-[revision].[ext]"],
        log=part / "ivy.log", report=report,
        what="Kafka's jars could not be resolved: check the network",
    )  # fmt: skip
    verify(jars, digests())
    return jars


def ivy() -> Path:
    """The Ivy jar inside the installed PySpark. Raises: RefusedError when it has none."""
    spec = importlib.util.find_spec("pyspark")
    assert spec is not None
    assert spec.submodule_search_locations
    jars = sorted((Path(spec.submodule_search_locations[0]) / "jars").glob("ivy-*.jar"))
    if not jars:
        raise RefusedError(
            "the installed PySpark has no Ivy jar: install pyspark 4.3.0", reason="TOOL_MISSING"
        )
    return jars[-1]


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
