"""Artifacts of Maven's repository, resolved by the Ivy that comes with PySpark: no Maven is needed."""

from pathlib import Path

from cli.errors import RefusedError
from cli.output.progress import Report
from devstack.tools import truststore
from devstack.tools.pyspark_home import find_pyspark
from devstack.tools.run import run

_FILE = """\
<ivy-module version="2.0">
  <info organisation="daggers" module="{name}"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    {dependencies}
  </dependencies>
</ivy-module>
"""


def retrieve(
    name: str,
    dependencies: str,
    part: Path,
    report: Report,
    java: Path,
    *,
    own_authorities: bool,
    failure: str,
) -> Path:
    """Resolve Ivy's elements `dependencies` into a folder of `part`; returns that folder.

    java: the program to run Ivy with.
    own_authorities: give it the certificate authorities of this Python in place of its own.
    failure: the sentence of the RefusedError that is raised where it cannot be done.
    """
    (part / "ivy.xml").write_text(_FILE.format(name=name, dependencies=dependencies))
    options = ["-XX:TieredStopAtLevel=1"]
    if own_authorities and (certificates := truststore.trusted_certificates()):
        truststore.write(part / "authorities.jks", certificates)
        options.append("-Djavax.net.ssl.trustStore=authorities.jks")
    # Told from the folder itself: Ivy takes brackets and parentheses of a path for a pattern's.
    run(
        [java, *options, "-jar", _program(), "-cache", "cache", "-ivy", "ivy.xml",
         "-confs", "default", "-retrieve", "jars/[artifact]-[revision].[ext]"],
        log=part / "ivy.log", report=report, failure=failure, cwd=part,
    )  # fmt: skip
    return part / "jars"


def _program() -> Path:
    """Return the Ivy jar inside the installed PySpark. Raises: RefusedError when it has none."""
    jars = sorted((find_pyspark() / "jars").glob("ivy-*.jar"))
    if not jars:
        raise RefusedError(
            "the installed PySpark has no Ivy jar: install pyspark 4.3.0", reason="TOOL_MISSING"
        )
    return jars[-1]
