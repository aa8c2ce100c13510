"""Cold storage by the command, against a gateway."""

import json
from typing import Any

COLD = """\
name: kept
team: pricing
cluster: local
streams: [{stream: orders}]
sql: |
  SELECT city AS tag_city, COUNT(1) AS orders, TUMBLE_END(rowtime, INTERVAL '10' SECOND) AS window_timestamp
  FROM `data_stream` GROUP BY TUMBLE(rowtime, INTERVAL '10' SECOND), city
sinks: [{parquet: {location: "s3://lake/cold", table: rides, credentials: {env: LAKE_KEYS}}}]
"""


def test_tables_are_listed_and_one_that_nobody_writes_yet_is_told_as_such(shell: Any) -> None:
    shell.fill()
    none = shell("archive", "list")
    applied = shell("apply", shell.file("kept.yaml", COLD))
    assert applied[0] == 0, applied
    listed, told = shell("archive", "list"), json.loads(shell("archive", "list", "-o", "json")[1])
    described = shell("archive", "describe", "kept")
    unknown = shell("archive", "describe", "kept", "--sink", "warm")

    assert none[2] == "no dagger writes to cold storage: a sink of kind parquet does\n"
    assert listed[1].split("\n")[1].split() == ["kept", "parquet", "orders", "s3://lake/cold/rides", "-"]
    assert told == [
        {"dagger": "kept", "team": "pricing", "sink": "parquet", "streams": ["orders"],
         "path": "s3://lake/cold/rides", "last_commit": None}
    ]  # fmt: skip
    assert (described[0] != 0, "kept was never launched" in described[2]) == (True, True)
    assert "kept has no sink warm" in unknown[2]
