"""Names of functions that are refused for a reason of their own, so that the answer says which."""

from __future__ import annotations

import re

FORBIDDEN = re.compile(
    r"(try_)?reflect|java_method|xpath\w*|raise_error|assert_true|read_\w+|\w*state_metadata|sequence|"
    r"(pos)?explode(_outer)?|inline(_outer)?|stack|range|json_tuple|from_(avro|csv|json|protobuf|xml)|schema_of_\w+|"
    r"input_file_\w+|current_(user|catalog|database|schema|path)|session_user|system_user|user|version|spark_\w+|"
    r"monotonically_increasing_id|(try_)?aes_\w+|ai_\w+|http\w*|url_\w+|secret|getenv|system|exec\w*|eval|"
    r"load_file|pg_\w+|sleep|benchmark|python_\w+|transform\w*|identifier|uniform|randstr|typeof|"
    r"array_repeat|variant_\w+|collations|sql_keywords|"
    r"map_from_\w+|aggregate|reduce|bitmap_\w+|window|session_window|window_time",
    re.IGNORECASE,
)
"""Functions of Spark that reach out of the query, end the job, exhaust memory, or are internal to Spark."""

UNREPEATABLE = {"UUID", "RAND", "RANDN", "RAND_INTEGER", "RANDOM", "SHUFFLE", "NOW_MICROS"}
"""Another answer at every run: a replay after a crash must give the same rows."""

UNSUPPORTED = {
    "COLLECT": "A multiset has no column to be: use CollectArray.",
    "FIRST_VALUE": "FIRST_VALUE stands in a query that groups by a window.",
    "LAST_VALUE": "LAST_VALUE stands in a query that groups by a window.",
    "ROW_NUMBER": "Rows of a stream have no order.",
    "RANK": "Rows of a stream have no order.",
    "DENSE_RANK": "Rows of a stream have no order.",
    "LAG": "Rows of a stream have no order.",
    "LEAD": "Rows of a stream have no order.",
}
"""Flink's functions that we know and do not have."""

SYNONYMS = {
    "GROUP_CONCAT": "LISTAGG",
    "STRING_AGG": "LISTAGG",
    "COUNT_DISTINCT": "DistinctCount",
    "APPROX_COUNT_DISTINCT": "DistinctCount",
    "MEAN": "AVG",
    "LEN": "CHAR_LENGTH",
    "LENGTH": "CHAR_LENGTH",
    "NVL": "COALESCE",
    "ISNULL": "COALESCE",
    "CEILING": "CEIL",
    "POW": "POWER",
    "SIZE": "CARDINALITY",
    "GETDATE": "CURRENT_TIMESTAMP",
    "SPLIT_PART": "SPLIT_INDEX",
    "RLIKE": "REGEXP",
}
"""Functions by their names in other engines."""
