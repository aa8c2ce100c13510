"""Offer what a dagger's Kafka sinks write as streams, with a message made from the query's columns. Pure.

Nothing is registered here: what is offered is what RegisterSchema and RegisterStream take, and a further sink
where the dagger writes JSON, which no stream can be of. Whoever reads that JSON keeps it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Final

from daggers.v1 import gateway_pb2, spec_pb2
from google.protobuf import descriptor_pb2 as dp

from access import sensitive
from api_gateway.validate import proto_text, schemas
from api_gateway.validate.spec_check import SpecValidation
from daggerspec import sinks
from daggerspec.columns import TIMES
from daggerspec.rowmessage import NotExpressible, build_file
from daggersql import Plan
from fleet import Fleet
from fleet.fold.catalogue import defining_file

PACKAGE: Final = "outputs"
"""The package above those of messages that are made here, one for each dagger."""
MESSAGE: Final = "Row"
_MAX_NAME: Final = 63
_STARTS: Final = ("window_start", *TIMES)
"""Names of the column that is taken as event time, the likeliest first: a row of a window is of its begin."""
_NO_TIME: Final = (
    "A stream needs an event time, and the query has no column of type TIMESTAMP: add the begin or the end of"
    " its window, or rowtime."
)
_PROTOBUF: Final = spec_pb2.KafkaSink.FORMAT_PROTOBUF
_RECORD: Final = spec_pb2.KafkaSink.FORMAT_RECORD
_BESIDE: Final = "-rows"
"""End of the name of a topic of messages that stands beside one of JSON."""


def offer_streams(
    name: str, spec: spec_pb2.DaggerSpec, validation: SpecValidation, fleet: Fleet
) -> Iterator[gateway_pb2.OfferedStream]:
    """Yield an offer for each Kafka sink of dagger `name`; none where its query has an error.

    A sink of JSON has none of its own where the dagger has the sink that would be offered beside it.
    """
    plan = validation.query.plan
    if plan is None:
        return
    written = {sink.kafka.topic for sink in spec.sinks if sink.kafka.format == _PROTOBUF}
    called = sinks.display_names(spec.sinks)
    for sink_name, sink, resolved in zip(called, spec.sinks, validation.sinks, strict=True):
        kafka = resolved.sink.kafka
        is_json = kafka.format not in (_PROTOBUF, _RECORD)
        if resolved.sink.WhichOneof("kind") == "kafka" and not (is_json and _beside(kafka.topic) in written):
            offer = gateway_pb2.OfferedStream(sink=sink_name)
            _Offer(name, spec, plan, fleet).fill(offer, sink, kafka)
            yield offer


class _Offer:
    """Offers for the sinks of one specification."""

    def __init__(self, name: str, spec: spec_pb2.DaggerSpec, plan: Plan, fleet: Fleet) -> None:
        self._name, self._spec, self._plan, self._fleet = name, spec, plan, fleet

    def fill(self, offer: gateway_pb2.OfferedStream, sink: spec_pb2.Sink, kafka: spec_pb2.KafkaSink) -> None:
        """Fill an offer for a sink; `kafka` is what it writes, its address filled in."""
        topic, message = kafka.topic, kafka.message
        if kafka.format == _RECORD:
            offer.stream.CopyFrom(self._same_records())
        else:
            if kafka.format != _PROTOBUF:
                topic = _beside(topic)
            times = [column.name for column in self._plan.columns if column.type == "timestamp"]
            if not times:
                offer.problem = _NO_TIME
                return
            try:
                message = self._add_message(offer, message)
            except (NotExpressible, schemas.Unusable) as why:
                offer.problem = _sentence(why)
                return
            if kafka.format != _PROTOBUF:
                offer.further_sink.CopyFrom(sink)
                offer.further_sink.ClearField("name")
                further = offer.further_sink.kafka
                further.topic, further.format, further.message = topic, _PROTOBUF, message
            preferred = [time for time in _STARTS if time in times]
            offer.stream.message = message
            offer.stream.time_field = (preferred or times)[0]
            offer.stream.sensitive.extend(self._sensitive())
        offer.stream.cluster = kafka.cluster or self._spec.cluster
        offer.stream.topics[:] = [topic]
        offer.stream.writer = self._name
        offer.stream.name = self._stream_name(offer.stream)

    def _same_records(self) -> spec_pb2.Stream:
        """Return the stream whose records go on as they are read."""
        entry = self._fleet.streams.get(self._spec.streams[0].stream)
        stream = spec_pb2.Stream()
        if entry is not None:
            stream.CopyFrom(entry.value)
        return stream

    def _add_message(self, offer: gateway_pb2.OfferedStream, written: str) -> str:
        """Return the message of the rows; add its schema to the offer unless it is registered as it is to be.

        written: the message that the sink writes already, not changed unless it was made here; empty: none.
        Raises: NotExpressible; Unusable.
        """
        if written and not written.startswith(f"{PACKAGE}."):
            return written
        if written:
            package, _, message = written.rpartition(".")
            return self._grow(offer, package, message)
        package = f"{PACKAGE}.{self._name.replace('-', '_')}"
        for number in count(1):
            message = MESSAGE if number == 1 else f"{MESSAGE}{number}"
            if self._is_others(f"{package}.{message}"):
                continue
            try:
                return self._grow(offer, package, message)
            except NotExpressible:
                if f"{package}.{message}" not in self._fleet.messages:
                    raise
        raise AssertionError("count ends never")

    def _is_others(self, message: str) -> bool:
        """Return whether a message is that of another dagger's stream."""
        streams = (entry.value for entry in self._fleet.streams.values())
        return any(one.message == message and one.writer != self._name for one in streams)

    def _grow(self, offer: gateway_pb2.OfferedStream, package: str, message: str) -> str:
        full_name = f"{package}.{message}"
        entry = self._fleet.messages.get(full_name)
        before = None
        if entry is not None:
            path = defining_file(entry.value.files, full_name)
            before = next(file for file in entry.value.files.file if file.name == path)
        file = build_file(package, message, self._plan.columns, before)
        if before is None or file != before:
            schema = schemas.prune(dp.FileDescriptorSet(file=[file]))
            offer.schema.CopyFrom(schema)
            offer.text = proto_text.message(schema.files, full_name)
        return full_name

    def _sensitive(self) -> Iterator[str]:
        """Yield the columns that are made of sensitive fields of the streams that the query reads."""
        streams = {
            input_.table: entry.value
            for input_ in self._spec.streams
            if (entry := self._fleet.streams.get(input_.stream)) is not None
        }
        for column, origins in zip(self._plan.columns, self._plan.origins, strict=True):
            if any(sensitive.sensitive_paths(origins, streams)):
                yield column.name

    def _stream_name(self, stream: spec_pb2.Stream) -> str:
        """Return the name of the stream: that which it is registered by, else one that is free."""
        for name, entry in sorted(self._fleet.streams.items()):
            if entry.value.writer == self._name and list(entry.value.topics) == list(stream.topics):
                return name
        for number in count(1):
            behind = "" if number == 1 else f"-{number}"
            name = self._name[: _MAX_NAME - len(behind)].rstrip("-_") + behind
            if name not in self._fleet.streams:
                return name
        raise AssertionError("count ends never")


def _beside(topic: str) -> str:
    """Return the topic of messages beside one of JSON."""
    return f"{topic}{_BESIDE}"


def _sentence(why: NotExpressible | schemas.Unusable) -> str:
    if isinstance(why, NotExpressible):
        return " ".join(why.problems)
    return " ".join(f"{violation.description}." for violation in why.violations)
