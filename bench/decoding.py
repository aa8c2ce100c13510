"""Decoding alone: records per CPU-second of messages of three shapes, by each way to decode them.

    .venv/bin/python bench/decoding.py [--records N] [--runs K]

`ptars` is the decoder in bulk without the look for irregular records, which is all that there was before;
`scan` is what readers do, that look included; `odd` the same where one record of a hundred is irregular and
parsed again; `reference` parses each record by google.protobuf, as for messages with groups. Each way in
turn, K times; the best of each is said. CPU: of this process.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from random import Random
from typing import Any, Final

import pyarrow as pa
from google.protobuf import descriptor_pb2 as dp
from google.protobuf import timestamp_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.message_factory import GetMessageClass
from machine import header

from runtime.decode import scanning
from runtime.decode.decoder import Decoder, find_message, message_pool

BATCH: Final = 10_000
_F = dp.FieldDescriptorProto
_WAYS: Final = ("ptars", "scan", "odd", "reference")


def main() -> None:
    """Run, and print a line for each shape."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--records", type=int, default=200_000)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    if why := scanning.build():
        raise SystemExit(f"there is nothing that looks for irregular records: {why}")
    print(header("ptars", "protobuf", "pyarrow", "numpy"), flush=True)
    print(f"# {options.records:,} records in batches of {BATCH:,}; records per CPU-second", flush=True)
    print(f"{'shape':10}" + "".join(f"{way:>14}" for way in _WAYS), flush=True)
    message = schema()
    for shape, paths in SHAPES.items():
        plain, odd = batch(message, odd=False), batch(message, odd=True)
        ways = {way: way_of(way, message, paths) for way in _WAYS}
        best = dict.fromkeys(_WAYS, 0.0)
        for _ in range(options.runs):
            for way, decode in ways.items():
                count = max(options.records // BATCH // (10 if way == "reference" else 1), 1)
                began = time.process_time()
                for _ in range(count):
                    decode(odd if way == "odd" else plain)
                spent = time.process_time() - began
                best[way] = max(best[way], count * BATCH / spent)
        print(f"{shape:10}" + "".join(f"{best[way]:>14,.0f}" for way in _WAYS), flush=True)


SHAPES: Final = {
    "narrow": ["id", "fare"],
    "oneof": ["id", "card", "cash", "voucher"],
    "map": ["id", "tags", "items"],
    "whole": ["id", "fare", "city", "card", "cash", "voucher", "tags", "items", "names"],
}


def way_of(way: str, message: Descriptor, paths: list[str]) -> Callable[[pa.BinaryArray], Any]:
    """A way to decode."""
    decoder = Decoder(message, paths, "at")
    if way == "reference":
        decoder._bulk = None  # noqa: SLF001 - what a place without a compiler has
    elif way == "ptars":
        assert decoder._bulk is not None  # noqa: SLF001 - a part alone
        return decoder._bulk.decode  # noqa: SLF001 - a part alone
    return decoder.decode


def schema() -> Descriptor:
    """A message with a oneof and maps, of scalars and of messages."""
    file = dp.FileDescriptorProto(
        name="d.proto", package="d", syntax="proto3", dependency=["google/protobuf/timestamp.proto"]
    )
    voucher = file.message_type.add(name="Voucher")
    voucher.field.add(name="code", number=1, type=_F.TYPE_STRING, label=_F.LABEL_OPTIONAL)
    voucher.field.add(name="cents", number=2, type=_F.TYPE_INT64, label=_F.LABEL_OPTIONAL)
    root = file.message_type.add(name="Root")
    root.oneof_decl.add(name="how")
    rows = [
        ("at", 1, _F.TYPE_MESSAGE, ".google.protobuf.Timestamp", None), ("id", 2, _F.TYPE_STRING, "", None),
        ("fare", 3, _F.TYPE_DOUBLE, "", None), ("city", 4, _F.TYPE_INT32, "", None),
        ("card", 5, _F.TYPE_STRING, "", 0), ("cash", 6, _F.TYPE_INT64, "", 0),
        ("voucher", 7, _F.TYPE_MESSAGE, ".d.Voucher", 0), ("names", 10, _F.TYPE_STRING, "", None),
        ("tags", 8, _F.TYPE_MESSAGE, ".d.Root.TagsEntry", None),
        ("items", 9, _F.TYPE_MESSAGE, ".d.Root.ItemsEntry", None),
    ]  # fmt: skip
    for name, number, kind, type_name, oneof in rows:
        repeated = name in ("tags", "items", "names")
        field = root.field.add(
            name=name, number=number, type=kind, label=_F.LABEL_REPEATED if repeated else _F.LABEL_OPTIONAL
        )
        if type_name:
            field.type_name = type_name
        if oneof is not None:
            field.oneof_index = oneof
    for name, value in (("TagsEntry", ""), ("ItemsEntry", ".d.Voucher")):
        entry = root.nested_type.add(name=name)
        entry.options.map_entry = True
        entry.field.add(name="key", number=1, type=_F.TYPE_STRING, label=_F.LABEL_OPTIONAL)
        kind = _F.TYPE_MESSAGE if value else _F.TYPE_STRING
        entry.field.add(name="value", number=2, type=kind, label=_F.LABEL_OPTIONAL, type_name=value or None)
    known = dp.FileDescriptorProto.FromString(timestamp_pb2.DESCRIPTOR.serialized_pb)
    return find_message(message_pool(dp.FileDescriptorSet(file=[known, file])), "d.Root")


def batch(message: Descriptor, *, odd: bool) -> pa.BinaryArray:
    """Records of some 200 bytes; of those with oddities one of a hundred has a member of the oneof twice."""
    rng, kind = Random(7), GetMessageClass(message)
    values = []
    for number in range(BATCH):
        record: Any = kind(id=f"order-{number:08d}", fare=rng.random() * 100, city=rng.randrange(50))
        record.at.seconds = 1_790_000_000 + number
        match rng.randrange(3):
            case 0:
                record.card = "4111111111111111"
            case 1:
                record.cash = rng.randrange(100_000)
            case _:
                record.voucher.code, record.voucher.cents = "SPRING", 500
        for key in ("channel", "app", "tier"):
            record.tags[key] = f"{key}-{rng.randrange(9)}"
        for item in range(2):
            record.items[f"sku-{item}"].cents = rng.randrange(1000)
        record.names.extend(["a", "bc"])
        value = record.SerializeToString()
        values.append(value + b"\x30\x05\x2a\x01c" if odd and number % 100 == 0 else value)
    return pa.array(values, pa.binary())


if __name__ == "__main__":
    main()
