"""Which sink of a dagger rows are read from, and how."""

from collections.abc import Callable
from pathlib import Path

from daggers.v1 import gateway_pb2, spec_pb2

from cli import driverlog
from cli.errors import MisusedError, RefusedError
from cli.gateway import Gateway
from cli.sinks import log
from cli.sinks.row import Row

# databases first: they keep every row, and each one once
PREFERRED = ("influx", "kafka", "log")
Reader = Callable[[int], list[Row]]


def reader(gateway: Gateway, dagger: gateway_pb2.Dagger, sink: str | None, state_dir: Path | None) -> Reader:
    """Reads the newest rows, at most as many as it is told.

    sink: influx, kafka or log; None takes the first of these that the dagger has.
    """
    has = {each.sink.WhichOneof("kind"): each for each in reversed(dagger.sinks)}
    kind = sink or next((kind for kind in PREFERRED if kind in has), None)
    if kind is None or kind not in has:
        listed = ", ".join(sorted(str(each) for each in has)) or "none"
        wanted = f"--sink {kind}: " if kind else ""
        raise MisusedError(f"{wanted}{dagger.name} has no such sink; it has {listed}")
    resolved = has[kind]
    if kind == "influx":
        from cli.sinks import influx  # its library is a fifth of what all other commands load

        address, measurement = resolved.sink.influx.address, resolved.sink.influx.measurement or dagger.name
        if not address.url:
            raise RefusedError(f"the influx sink of {dagger.name} has no address")
        return lambda limit: influx.read(address, measurement, limit)
    if kind == "kafka":
        return _kafka(gateway, resolved)
    return lambda limit: log.read(driverlog.find(dagger, state_dir), limit)


def _kafka(gateway: Gateway, resolved: spec_pb2.ResolvedSink) -> Reader:
    from cli.sinks import kafka

    sink = resolved.sink.kafka
    decode: kafka.Decode = kafka.decode_json
    if sink.format == spec_pb2.KafkaSink.FORMAT_PROTOBUF:
        decode = kafka.protobuf_decoder(gateway.schema(sink.message), sink.message)
    return lambda limit: kafka.read(resolved.kafka, sink.topic, decode, limit)
