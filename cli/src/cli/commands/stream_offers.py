"""Offer what a dagger's Kafka sink writes as a stream: what Validate proposes, registered step by step."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from daggers.v1 import gateway_pb2, spec_pb2

from cli.commands.planned_edit import Edit, apply_planned
from cli.errors import RefusedError
from cli.files.dagger_file import parse_file, read_file
from cli.framework.gateway import Gateway
from cli.framework.session import Session
from cli.output.json_views.answers import to_json


def read_spec(gateway: Gateway, name: str, file: Path | None) -> spec_pb2.DaggerSpec:
    """Return the specification of a dagger as a file says it; without a file the present one.

    Raises: CliError.
    """
    if file is None:
        return gateway.get(name).spec
    daggers, _ = parse_file(read_file(file), str(file))
    spec = next((dagger.spec for dagger in daggers if dagger.name == name), None)
    if spec is None:
        raise RefusedError(f"{file} has no dagger {name}", reason="NOT_FOUND")
    return spec


def find_offer(
    gateway: Gateway, name: str, spec: spec_pb2.DaggerSpec, sink: str
) -> gateway_pb2.OfferedStream:
    """Return the offer for a sink of a dagger; `sink` may be empty where there is one.

    Raises: RefusedError.
    """
    request = gateway_pb2.ValidateRequest(name=name, spec=spec, without_topics=True, offer_streams=True)
    answer = gateway.call(gateway.daggers.Validate, request)
    offers = {offer.sink: offer for offer in answer.offered_streams}
    if not answer.columns:
        text = f"the query of {name} has an error: `daggers validate` says which"
        raise RefusedError(text, reason="INVALID_QUERY")
    if not offers:
        text = f"{name} has no sink of Kafka, whose topic could be a stream"
        raise RefusedError(text, reason="NO_KAFKA_SINK")
    if sink not in offers and (sink or len(offers) > 1):
        is_it = f"has no Kafka sink {sink}" if sink else "has several Kafka sinks"
        text = f"{name} {is_it}: say --sink, one of {', '.join(offers)}"
        raise RefusedError(text, reason="NOT_FOUND")
    offer = offers[sink] if sink else next(iter(offers.values()))
    if offer.problem:
        raise RefusedError(f"sink {offer.sink} cannot be a stream: {offer.problem}", reason="NOT_A_STREAM")
    return offer


def steps(name: str, offer: gateway_pb2.OfferedStream) -> Iterator[str]:
    """Yield what accepting an offer does, in its order."""
    if offer.HasField("schema"):
        yield f"message {offer.stream.message} is registered"
    if offer.HasField("further_sink"):
        kafka = offer.further_sink.kafka
        yield (
            f"{name} writes its rows to topic {kafka.topic}, too, as these messages: what sink {offer.sink}"
            f" writes is JSON, and stays; in a file of it: kafka: {{topic: {kafka.topic}, format: protobuf,"
            f" message: {kafka.message}}}"
        )
    stream = offer.stream
    yield f"topic {' '.join(stream.topics)} is stream {stream.name}, its event time {stream.time_field}"


def accept(
    session: Session, gateway: Gateway, name: str, spec: spec_pb2.DaggerSpec, offer: gateway_pb2.OfferedStream
) -> gateway_pb2.RegisterStreamResponse:
    """Register the message, add the sink and register the stream. Raises: CliError.

    Each step may be done already: what was interrupted is offered again, without it.
    """
    if offer.HasField("schema"):
        gateway.call(gateway.catalog.RegisterSchema, gateway_pb2.RegisterSchemaRequest(schema=offer.schema))
    if offer.HasField("further_sink"):
        spec.sinks.append(offer.further_sink)
        reason = f"offered as stream {offer.stream.name}"
        apply_planned(
            session, gateway, Edit(name, spec, "with the further sink"), message=reason, loses=False, yes=True
        )
    request = gateway_pb2.RegisterStreamRequest(stream=offer.stream)
    return gateway.call(gateway.catalog.RegisterStream, request)


def document(offer: gateway_pb2.OfferedStream, done: Sequence[str], *, dry_run: bool) -> dict[str, Any]:
    """Build the JSON document of an offer."""
    return {
        "stream": to_json(offer.stream),
        "sink": offer.sink,
        "message": offer.text or None,
        "steps": list(done),
        "dry_run": dry_run,
    }
