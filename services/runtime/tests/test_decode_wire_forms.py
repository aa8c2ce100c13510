"""Every wire form of every schema decodes to what Protobuf's own parser reads of it.

A seed is a schema and some records. `make test` looks at a few hundred; `make test-long` looks at fresh ones
for ten minutes, and prints the seed of any difference: `difference(SEED, …)` is that case again.
"""

from __future__ import annotations

import secrets
import sys
import time
from functools import partial
from random import Random
from typing import Any, Final

import pytest
from google.protobuf.descriptor import Descriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from services.runtime.tests import wireoracle, wireschemas
from services.runtime.tests.wireforms import WireForms

from runtime import compiled
from runtime.decode import scanning
from runtime.decode.decoder import DecodedRecords, Decoder, find_message, message_pool

SEEDS: Final = 120
FRESH_S: Final = 600.0
_RECORDS: Final = 12


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> scanning.Library:
    """What looks for irregular records, built for this run."""
    folder = tmp_path_factory.mktemp("native")
    why = compiled.build(scanning.SOURCE, scanning.Library, folder)
    if "no C compiler" in why:
        pytest.skip(why)
    assert not why, why
    return scanning.Library(compiled.place(scanning.SOURCE, folder))


def decoders(message: Descriptor, paths: list[str], library: scanning.Library) -> list[Decoder]:
    """The decoder that a schema gets, and the one where nothing was built."""
    alone = Decoder(message, paths, "at", library)
    alone._bulk = None
    return [Decoder(message, paths, "at", library), alone]


def difference(seed: int, library: scanning.Library) -> str:
    """What a seed's records decode to and should not; "" for nothing."""
    rng = Random(seed)
    files = wireschemas.schema(rng)
    message = find_message(message_pool(files), "wire.Root")
    paths = [str(field.name) for field in message.fields]
    oracle = wireoracle.Oracle(files, "wire.Root")
    forms = WireForms(rng, rng.choice([0.0, 0.05, 0.3]))
    values = [forms.record(message) for _ in range(_RECORDS)]
    for decoder in decoders(message, paths, library):
        expected = [oracle.row(value, decoder.columns) for value in values]
        if (found := rows(decoder, decoder.decode(values))) != expected:
            index = next(index for index, row in enumerate(found) if row != expected[index])
            return (
                f"seed {seed}, record {index} {values[index].hex()} bulk={decoder._bulk is not None}:\n"
                f"decoded {found[index]}\nProtobuf {expected[index]}\n{files.file[-1]}"
            )
    return ""


def rows(decoder: Decoder, decoded: DecodedRecords) -> list[dict[str, Any] | str]:
    """The row of each record, in the words of the oracle."""
    sound = iter(decoded.columns.to_pylist())
    count = len(decoded.columns) + len(decoded.broken)
    return [
        wireoracle.BROKEN
        if index in decoded.broken
        else {
            column.name: wireoracle.shown(row[column.name], column)
            for row in [next(sound)]
            for column in decoder.columns
        }
        for index in range(count)
    ]


def test_every_wire_form_decodes_to_what_protobuf_reads(library: scanning.Library) -> None:
    differences = filter(None, (difference(seed, library) for seed in range(SEEDS)))

    assert next(differences, "") == ""


def long_varint(number: int, size: int) -> bytes:
    """A varint of so many bytes, whether it needs them or not."""
    more = [number >> 7 * place & 0x7F | 0x80 for place in range(size - 1)]
    return bytes([*more, number >> 7 * (size - 1)])


@pytest.mark.parametrize("size", range(1, 11))
@pytest.mark.parametrize(
    "place", ["tag", "length", "unknown tag", "unknown length", "packed", "time", "value"]
)
def test_a_tag_or_a_length_is_read_as_far_as_protobuf_reads_it(
    library: scanning.Library, size: int, place: str
) -> None:
    files, long = FileDescriptorSet(file=wireschemas.KNOWN), partial(long_varint, size=size)
    root = files.file.add(name="wire.proto", package="wire", syntax="proto3")
    root.dependency.extend(known.name for known in wireschemas.KNOWN)
    fields = root.message_type.add(name="Root").field
    fields.add(name="text", number=1, type="TYPE_STRING", label="LABEL_OPTIONAL")
    fields.add(name="numbers", number=2, type="TYPE_INT32", label="LABEL_REPEATED")
    fields.add(
        name="at",
        number=3,
        type="TYPE_MESSAGE",
        label="LABEL_OPTIONAL",
        type_name=".google.protobuf.Timestamp",
    )
    time_ = long(1 << 3) + b"\x05"
    value = {
        "tag": long(1 << 3 | 2) + b"\x01A",
        "length": b"\x0a" + long(1) + b"A",
        "unknown tag": long(4 << 3 | 2) + b"\x01A",
        "unknown length": b"\x22" + long(1) + b"A",
        "packed": b"\x12" + long(1) + b"\x07",
        "time": b"\x1a" + bytes([len(time_)]) + time_,
        "value": b"\x10" + long(7),
    }[place]
    message, oracle = find_message(message_pool(files), "wire.Root"), wireoracle.Oracle(files, "wire.Root")
    for decoder in decoders(message, ["text", "numbers", "at"], library):
        expected = [oracle.row(value, decoder.columns)]

        assert rows(decoder, decoder.decode([value])) == expected
        assert (expected == [wireoracle.BROKEN]) == (size > 5 and place != "value")


@pytest.mark.long
@pytest.mark.timeout(FRESH_S + 120)
def test_no_fresh_seed_decodes_otherwise(
    library: scanning.Library, capsys: pytest.CaptureFixture[str]
) -> None:
    until, looked_at, found = time.monotonic() + FRESH_S, 0, ""
    while time.monotonic() < until and not found:
        found = difference(secrets.randbits(48), library)
        looked_at += 1
    with capsys.disabled():
        sys.stdout.write(f"\n{looked_at} fresh schemas, {looked_at * _RECORDS} records by both decoders\n")

    assert found == ""
