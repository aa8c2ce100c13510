"""Files of this host as Hadoop writes them, but that no process is started for each.

Without its native library, which no wheel has, Hadoop runs `chmod` for every file that it creates, in a
process of its own: six in each batch, of offsets, state, commit and their checksums. They took 40 ms of a
batch, and 20 CPU-ms. Java can do it itself since 1.7. Files, checksums and permissions are the same.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from runtime.spark.java import compiled

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
    """Have this JVM write local files so, whoever asks Hadoop for them from now on; again changes nothing."""
    jvm: Any = session._jvm  # noqa: SLF001 - Spark has no setting for a class that is in no jar
    known = session._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
    systems, here = jvm.org.apache.hadoop.fs.FileSystem, jvm.java.net.URI.create("file:///")
    before = systems.get(here, known)
    if before.getClass().getName() == _NAME:
        return
    told = jvm.org.apache.hadoop.conf.Configuration(known)
    told.setClassLoader(compiled(jvm, _SOURCE))
    told.set("fs.file.impl", _NAME)
    before.close()  # Hadoop forgets it: the next that is asked for is kept for all
    systems.get(here, told)
