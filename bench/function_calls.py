"""What bench/functions.py measures: a call of each function of our own, and the rows that it reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, timestamp_pb2
from google.protobuf.message_factory import GetMessageClass

from daggersql import Table

_Field = descriptor_pb2.FieldDescriptorProto
_MINUTES = "sequence(0, 9)"
_ENCODED = "array(X'{0}', X'{1}', X'{0}')"
MESSAGE = "bench.Row"
START = "2023-11-14 22:13:00"
"""The first minute of every series."""
COLUMNS = {
    "lat": (_Field.TYPE_DOUBLE, False, "rand(1) * 180 - 90"),
    "lng": (_Field.TYPE_DOUBLE, False, "rand(2) * 360 - 180"),
    "cell": (_Field.TYPE_STRING, False, "CAST(CAST(rand(3) * 1e18 AS BIGINT) * 8 + 4 AS STRING)"),
    "sec": (_Field.TYPE_INT64, False, "1700000000 + id * 7"),
    "words": (_Field.TYPE_STRING, False, "concat_ws(',', id, 'abc', id % 7, '')"),
    "data": (_Field.TYPE_BYTES, False, "CAST(concat('text ', id) AS BINARY)"),
    "doc": (_Field.TYPE_STRING, False, 'concat(\'{"a":{"b":[\', id, \',2]},"c":"x"}\')'),
    "list": (_Field.TYPE_INT64, True, "array(id % 5, id, id % 3)"),
    "x": (_Field.TYPE_INT64, False, "id"),
    "key": (_Field.TYPE_STRING, False, "CAST(id % 2000 AS STRING)"),
    "times": (
        _Field.TYPE_MESSAGE,
        True,
        f"transform({_MINUTES}, i -> timestamp_seconds(1700000000 - 20 + i * 60))",
    ),
    "series": (
        _Field.TYPE_DOUBLE,
        True,
        f"transform({_MINUTES}, i -> CAST((id * 7 + i * 13) % 100 AS DOUBLE))",
    ),
    "items": (_Field.TYPE_BYTES, True, _ENCODED),
}
"""Protobuf type, whether repeated, and what it holds as Spark SQL over `id`."""


@dataclass(frozen=True, slots=True)
class Column:
    """An argument that is a column."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """A call in SQL, and the arguments of the plain reference that mean the same."""

    sql: str
    arguments: tuple[Any, ...]
    aggregate: bool = False
    rows: bool = False
    """It gives rows, and stands in FROM."""
    needs: frozenset[str] = field(default=frozenset())
    """What the reference is given beside: `pool` (message types), `tables` (reference tables)."""


_zone = "America/New_York"
_pool, _tables = frozenset({"pool"}), frozenset({"tables"})
_C = Column
TABLES = {
    "cities": {str(number): f"city {number}" for number in range(1000)},
    "listed": {"data": [str(number) for number in range(1000)]},
}
"""The reference tables; half of the keys are in them."""
CALLS = {
    "S2Id": Call("S2Id(lat, lng, 13)", (_C("lat"), _C("lng"), 13)),
    "S2AreaInKm2": Call("S2AreaInKm2(cell)", (_C("cell"),)),
    "Distance": Call("Distance(lat, lng, 1.5, 103.8)", (_C("lat"), _C("lng"), 1.5, 103.8)),
    "GeoHash": Call("GeoHash(lat, lng, 6)", (_C("lat"), _C("lng"), 6)),
    "StartOfMonth": Call(f"StartOfMonth(sec, '{_zone}')", (_C("sec"), _zone)),
    "EndOfMonth": Call(f"EndOfMonth(sec, '{_zone}')", (_C("sec"), _zone)),
    "StartOfWeek": Call(f"StartOfWeek(sec, '{_zone}')", (_C("sec"), _zone)),
    "EndOfWeek": Call(f"EndOfWeek(sec, '{_zone}')", (_C("sec"), _zone)),
    "TimeInDate": Call(f"TimeInDate(sec, 9, 30, '{_zone}')", (_C("sec"), 9, 30, _zone)),
    "TimestampFromUnix": Call("TimestampFromUnix(sec)", (_C("sec"),)),
    "FormatTimeInZone": Call(
        "FormatTimeInZone(rowtime, 'Asia/Kolkata', 'yyyy-MM-dd HH:mm:ss')",
        (_C("rowtime"), "Asia/Kolkata", "yyyy-MM-dd HH:mm:ss"),
    ),
    "Split": Call("Split(words, ',')", (_C("words"), ",")),
    "ByteToString": Call("ByteToString(data)", (_C("data"),)),
    "JsonQuery": Call("JsonQuery(doc, '$.a.b[0]')", (_C("doc"), "$.a.b[0]")),
    "JsonUpdate": Call("JsonUpdate(doc, '$.c', 'y')", (_C("doc"), "$.c", "y")),
    "JsonDelete": Call("JsonDelete(doc, '$.a')", (_C("doc"), "$.a")),
    "ListContains": Call("ListContains(list, 2)", (_C("list"), 2)),
    "ArrayOperate": Call(
        "ArrayOperate(list, 'distinct.sorted', 'long')", (_C("list"), "distinct.sorted", "long")
    ),
    "ArrayAggregate": Call(
        "ArrayAggregate(list, 'distinct.sum', 'long')", (_C("list"), "distinct.sum", "long")
    ),
    "ElementAt": Call("ElementAt(list, -1)", (_C("list"), -1)),
    "MapGet": Call("MapGet(MAP['a', x, 'b', 1], 'a')", (_C("map"), "a")),
    "SelectFields": Call(f"SelectFields(items, '{MESSAGE}', 'x')", (_C("items"), MESSAGE, "x"), needs=_pool),
    # CondEq stands in Filters only, and is measured with it.
    "Filters": Call(
        f"Filters(items, '{MESSAGE}', CondEq('x', 5))", (_C("items"), MESSAGE, ("x", 5)), needs=_pool
    ),
    "SingleFeatureWithType": Call(
        "SingleFeatureWithType('a', x, 'LongType', 'b', lat, 'DoubleType')",
        ("a", _C("x"), "LongType", "b", _C("lat"), "DoubleType"),
    ),
    "ExponentialMovingAverage": Call(
        f"ExponentialMovingAverage(times, series, TIMESTAMP '{START}', 10, 0.2)",
        (_C("times"), _C("series"), START, 10, 0.2),
    ),
    "LinearTrend": Call(
        f"LinearTrend(times, series, TIMESTAMP '{START}', 10)", (_C("times"), _C("series"), START, 10)
    ),
    "DartGet": Call("DartGet('cities', key, 1, 'none')", ("cities", _C("key"), 1, "none"), needs=_tables),
    "DartContains": Call("DartContains('listed', key)", ("listed", _C("key")), needs=_tables),
    "OutlierMad": Call(
        f"OutlierMad(series, times, TIMESTAMP '{START}', 10, 3, 2.0, 50.0)",
        (_C("series"), _C("times"), START, 10, 3, 2.0, 50.0),
        rows=True,
    ),
    "HistogramBucket": Call(
        "HistogramBucket(lat, '10,50,100,500,1000')", (_C("lat"), "10,50,100,500,1000"), rows=True
    ),
    "DistinctCount": Call("DistinctCount(x)", (_C("x"),), aggregate=True),
    "PercentileAggregator": Call("PercentileAggregator(95, lat)", (95, _C("lat")), aggregate=True),
    "CollectArray": Call("CollectArray(x)", (_C("x"),), aggregate=True),
    "Features": Call("Features('a', x)", ("a", _C("x")), aggregate=True),
    "FeaturesWithType": Call(
        "FeaturesWithType('a', x, 'LongType')", ("a", _C("x"), "LongType"), aggregate=True
    ),
}


def message_files() -> descriptor_pb2.FileDescriptorSet:
    """The message types of the stream."""
    message = descriptor_pb2.DescriptorProto(name="Row")
    time = ".google.protobuf.Timestamp"
    message.field.add(
        name="time", number=1, type=_Field.TYPE_MESSAGE, type_name=time, label=_Field.LABEL_OPTIONAL
    )
    for number, (name, (kind, repeated, _)) in enumerate(COLUMNS.items(), 2):
        label = _Field.LABEL_REPEATED if repeated else _Field.LABEL_OPTIONAL
        made = message.field.add(name=name, number=number, type=kind, label=label)
        if kind == _Field.TYPE_MESSAGE:
            made.type_name = time
    own = descriptor_pb2.FileDescriptorProto(
        name="row.proto", package="bench", syntax="proto3", message_type=[message],
        dependency=[timestamp_pb2.DESCRIPTOR.name],
    )  # fmt: skip
    times = descriptor_pb2.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    return descriptor_pb2.FileDescriptorSet(file=[times, own])


def table(pool: descriptor_pool.DescriptorPool) -> Table:
    """The stream."""
    return Table("rows", pool.FindMessageTypeByName(MESSAGE), "time")


def selected(pool: descriptor_pool.DescriptorPool) -> list[str]:
    """The stream's view as Spark SQL over `id`, without its time and metadata."""
    kind: Any = GetMessageClass(pool.FindMessageTypeByName(MESSAGE))
    encoded = [kind(x=x, key="a key").SerializeToString().hex() for x in (5, 6)]
    return [
        f"{sql.format(*encoded) if sql is _ENCODED else sql} AS {name}"
        for name, (_, _, sql) in COLUMNS.items()
    ]
