"""Remove Hadoop's defaults from its configuration.

Spark copies, serialises and measures the whole configuration for each state store of each batch, and nearly
all of it are defaults of unused file systems. A local disk needs none: its code has the same defaults.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from runtime.spark.java import compile_java

_NAME = "Defaults"
# the class of a file system is configured nowhere else
_KEPT = "fs.AbstractFileSystem."
_SOURCE = f"""
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;

public class {_NAME} {{
  public void forget(Configuration configuration) {{
    List names = new ArrayList();
    for (Iterator entries = configuration.iterator(); entries.hasNext();) {{
      names.add(((Map.Entry) entries.next()).getKey());
    }}
    for (int index = 0; index < names.size(); index++) {{
      String name = (String) names.get(index);
      String[] sources = configuration.getPropertySources(name);
      boolean given = sources == null || !sources[sources.length - 1].endsWith("-default.xml");
      if (!given && !name.startsWith("{_KEPT}")) {{
        configuration.unset(name);
      }}
    }}
  }}
}}
"""


def forget(session: SparkSession) -> None:
    """Remove the defaults; only if all files of this application are on a local disk. Idempotent."""
    jvm: Any = session._jvm  # noqa: SLF001 - Spark has no setting for it
    configuration = session._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
    compile_java(jvm, _SOURCE).loadClass(_NAME).newInstance().forget(configuration)
