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
from pathlib import Path
from random import Random
from typing import Any, Final

import pyarrow as pa
from google.protobuf.descriptor import Descriptor
from machine import header
from workload import message_class

from runtime.decode import scanning
from runtime.decode.decoder import Decoder

PROTO: Final = Path(__file__).with_name("order.proto")
MESSAGE: Final = "bench.v1.Order"
BATCH: Final = 10_000
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
    message = message_class(PROTO, MESSAGE).DESCRIPTOR
    for shape, paths in SHAPES.items():
        plain, odd = batch(odd=False), batch(odd=True)
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


def bodies(rng: Random) -> list[Any]:
    """Records of some 200 bytes, without a time."""
    kind, made = message_class(PROTO, MESSAGE), []
    for number in range(BATCH):
        record: Any = kind(id=f"order-{number:08d}", fare=rng.random() * 100, city=rng.randrange(50))
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
        made.append(record)
    return made


def batch(*, odd: bool) -> pa.BinaryArray:
    """Records; of those with oddities one of a hundred has a member of the oneof twice."""
    values = []
    for number, record in enumerate(bodies(Random(7))):
        record.at.seconds = 1_790_000_000 + number
        value = record.SerializeToString()
        values.append(value + b"\x30\x05\x2a\x01c" if odd and number % 100 == 0 else value)
    return pa.array(values, pa.binary())


if __name__ == "__main__":
    main()
