"""Helpers of test_spec_destinations.py and of its neighbours."""

from __future__ import annotations

from typing import Any

BUCKET = "influx://influx:8086/b"
CASES: dict[str, list[tuple[dict[str, Any], str]]] = {
    "influx": [
        ({"address": {"url": "http://Influx.:8086", "org": "o", "bucket": "b"}}, f"{BUCKET}/fares"),
        ({"address": {"url": "https://influx", "bucket": "b/autogen"}}, "influx://influx:443/b/fares"),
        ({"address": {"url": "http://influx:8086", "bucket": "b/short"}, "measurement": "a/b *"},
         "influx://influx:8086/b%2Fshort/a%2Fb%20%2A"),
    ],
    "postgres": [
        ({"address": {"host": "DB", "database": "d"}, "table": "t"}, "postgres://db:5432/d.public/t"),
        ({"address": {"host": "db", "port": 6432, "database": "d"}, "schema": "s", "table": "T"},
         "postgres://db:6432/d.s/T"),
    ],
    "elasticsearch": [
        ({"url": "http://es:9200/", "index": "trips"}, "elasticsearch://es:9200//trips"),
        ({"url": "http://es", "index": "trips-${window_timestamp:%Y}"}, "elasticsearch://es:80//trips-*"),
    ],
    "redis": [
        ({"address": "cache:6379", "key": "trips:${city}", "database": 2}, "redis://cache:6379/2/trips:*"),
        ({"address": "cache:6379", "key": "${city}"}, "redis://cache:6379/0/*"),
    ],
    "http": [
        ({"url": "https://crm/api/", "path": "/v1/orders"}, "http://crm:443//%2Fapi%2Fv1%2Forders"),
        ({"url": "http://crm", "path": "/v1/${id}/x"}, "http://crm:80//%2Fv1%2F*"),
    ],
    "grpc": [({"target": "crm:443", "method": "shop.Orders/Put"}, "grpc://crm:443/shop.Orders/Put")],
    "clevertap": [
        ({"account": "A-1", "region": "in1", "event": "e"}, "clevertap://in1.api.clevertap.com:443/A-1/e"),
        ({"account": "A-1", "region": "in1", "profile": True}, "clevertap://in1.api.clevertap.com:443/A-1/"),
    ],
    "mixpanel": [({"project": "42", "event": "e"}, "mixpanel://api.mixpanel.com:443/42/e")],
    "parquet": [
        ({"location": "/files/a", "table": "t"}, "parquet:////%2Ffiles%2Fa%2Ft%2F*"),
        ({"location": "s3://b/lake", "table": "t", "endpoint": "http://s3:9000"},
         "parquet://s3:9000/b/lake%2Ft%2F*"),
        ({"location": "s3://b", "region": "eu-west-1"}, "parquet://amazonaws.com:443/b/fares%2F*"),
    ],
    "kafka": [({"topic": "rows"}, "kafka://kafka:9092//rows")],
    "log": [({}, "")],
}  # fmt: skip
"""Of a kind: sinks of the dagger `fares`, and what each writes to."""
