"""Hadoop's configuration without what Hadoop's own code says where nothing is written.

Spark copies, serialises and measures all of it for each state store of each batch, and nearly all of it are
the defaults of file systems that are not there. A local disk needs none: its code has the same ones.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import SparkSession

from runtime.spark.java import compiled

_NAME = "Defaults"
# Which class serves a kind of path is said nowhere else.
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
    """To be called where all files of this application are on a local disk; again changes nothing."""
    jvm: Any = session._jvm  # noqa: SLF001 - Spark has no setting for it
    known = session._jsc.hadoopConfiguration()  # noqa: SLF001 - as above
    compiled(jvm, _SOURCE).loadClass(_NAME).newInstance().forget(known)
