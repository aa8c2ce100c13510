"""Helpers of test_sink_parquet_s3.py and of its neighbours."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
from daggers.v1 import spec_pb2
from services.runtime.tests import sink_parquet as local
from tests import s3 as servers

from runtime.clients import files
from runtime.clients.files import s3


class Table(local.Table):
    """A table of one test in a bucket."""

    @property
    def client(self) -> Any:
        return s3.client(self.resolved.sink.parquet.endpoint, "us-east-1", servers.KEY, servers.SECRET, None)

    @property
    def files(self) -> files.Files:
        return files.of(self.resolved)

    def rows(self, names: list[str]) -> Counter[int]:
        texts = [self.files.get(name) for name in names]
        return Counter(n for text in texts for n in pq.read_table(pa.BufferReader(text))["n"].to_pylist())

    def seen(self) -> Counter[int]:
        """What readers of folders see."""
        days = [day for day in self.files.names("") if day.startswith("dt=")]
        hours = [f"{day}/{hour}" for day in days for hour in self.files.names(day)]
        return self.rows([f"{hour}/{name}" for hour in hours for name in self.files.names(hour)])

    def told(self) -> Counter[int]:
        """What readers of manifests see."""
        made, below = self.files, "_daggers/commits/d"
        folders = [f"{below}/{name}" for name in made.names(below)]
        texts = [made.get(f"{folder}/{name}") for folder in folders for name in made.names(folder)]
        return self.rows([file["path"] for text in texts for file in json.loads(text or b"")["files"]])

    def waiting(self) -> list[str]:
        """Uploads that are open."""
        return [name for name, _ in self.files.list_staged("")]


def sink(server: str, secret: Path) -> spec_pb2.ResolvedSink:
    """A sink with a bucket of its own."""
    secret.write_text(f"{servers.KEY}:{servers.SECRET}\n")
    bucket = f"b-{uuid4().hex[:12]}"
    resolved = spec_pb2.ResolvedSink(egress=spec_pb2.Egress(enforce=True, networks="127.0.0.0/8"))
    asked = resolved.sink.parquet
    asked.location, asked.table = f"s3://{bucket}/lake", "counts"
    asked.endpoint, asked.region, asked.credentials.file = server, "us-east-1", str(secret)
    s3.client(server, "us-east-1", servers.KEY, servers.SECRET, None).create_bucket(Bucket=bucket)
    return resolved
