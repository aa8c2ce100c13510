"""Write local files as Hadoop does, but without a process for each.

Without its native library, which no wheel has, Hadoop runs the program `chmod` for every file that it
creates: six in each batch, for offsets, state, commit and their checksums, 40 ms of a batch and 20 CPU-ms.
Java itself can set permissions since 1.7. Files, checksums and permissions are the same.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from runtime.spark.java import compile_java

_NAME = "LocalFiles"
_SOURCE = f"""
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

public class {_NAME} extends LocalFileSystem {{
  public {_NAME}() {{ super(new Raw()); }}

  public static class Raw extends RawLocalFileSystem {{
    public void setPermission(Path path, FsPermission permission) throws IOException {{
      if (permission.getStickyBit()) {{
        super.setPermission(path, permission);
      }} else {{
        Files.setPosixFilePermissions(
            pathToFile(path).toPath(), PosixFilePermissions.fromString(permission.toString()));
      }}
    }}
  }}
}}
"""


def use(session: SparkSession) -> None:
    """Make this class Hadoop's local file system in this JVM from now on. Idempotent."""
    jvm: Any = session._jvm  # noqa: SLF001 - Spark has no setting for a class that is in no jar
    configuration = session._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
    systems, here = jvm.org.apache.hadoop.fs.FileSystem, jvm.java.net.URI.create("file:///")
    before = systems.get(here, configuration)
    if before.getClass().getName() == _NAME:
        return
    own_configuration = jvm.org.apache.hadoop.conf.Configuration(configuration)
    own_configuration.setClassLoader(compile_java(jvm, _SOURCE))
    own_configuration.set("fs.file.impl", _NAME)
    before.close()  # removes it from Hadoop's cache; the next one opened is cached for all
    systems.get(here, own_configuration)
