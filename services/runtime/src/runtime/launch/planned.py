"""What a spec says of a launch, without Spark: its plan, what is wrong with it, the columns of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from daggers.v1 import spec_pb2
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

import daggersql
from daggerspec import query, rules, state
from daggerspec import sinks as rulebook
from daggerspec.catalogue import Unresolved
from daggerspec.kind import Asked
from daggerspec.launch import LaunchCatalogue
from daggerspec.violation import Violation
from runtime.encode.rows import Layout
from runtime.errors import internal, refused


def read_spec(path: Path, generation: int) -> spec_pb2.JobSpec:
    """The launch's file. Raises `JobError` (INTERNAL) when it is not what the command line promises."""
    try:
        spec = spec_pb2.JobSpec.FromString(path.read_bytes())
    except OSError as problem:
        raise internal("BAD_SPEC", f"The launch's file {path} cannot be read: {problem.strerror}.") from None
    except DecodeError:
        raise internal("BAD_SPEC", f"The launch's file {path} is not a JobSpec.") from None
    if spec.generation != generation:
        told = f"generation {spec.generation}, the command line says {generation}"
        raise internal("BAD_SPEC", f"The launch's file {path} says {told}.")
    return spec


def checked(spec: spec_pb2.JobSpec) -> daggersql.Plan:
    """The plan of the dagger's SQL, and nothing is wrong with its spec.

    Raises `JobError`: USER with everything that is wrong, INTERNAL for a spec that leaves something unsaid.
    The gateway has checked it before, perhaps long ago: what only a newer check of a query objects to is a
    warning here. For what it hands to Spark the driver trusts nobody's word.
    """
    if left := rules.unsaid(spec.dagger, spec.spec):
        raise internal("BAD_SPEC", f"The launch's spec does not say {', '.join(left)}.")
    catalogue = LaunchCatalogue(spec)
    answer, text = daggersql.Checked(None, ()), query.of(spec.spec)
    if rules.is_judgeable(spec.spec, catalogue):
        answer = _asked(text, spec, catalogue)
    asked = Asked(spec.dagger, spec.spec, catalogue, answer.plan)
    wrong = list(rules.violations("spec", asked, rulebook.all_resolved("spec", asked)))
    wrong += answer.wrong_conditions("spec.sinks", [sink.when for sink in spec.spec.sinks])
    wrong += _foreign(spec)
    errors = [one for one in answer.findings if one.severity is daggersql.Severity.ERROR]
    wrong += [text.located("spec", error.violation("")) for error in errors]
    if wrong or answer.plan is None:
        raise refused(wrong)
    return answer.plan


def _foreign(spec: spec_pb2.JobSpec) -> Iterator[Violation]:
    """The sinks that would write to what the log has not as their team's, where it was judged."""
    for number, sink in enumerate(spec.sinks):
        place = rulebook.destination(sink)
        if spec.destinations and place is not None and str(place) not in spec.destinations:
            text = f"would write to {place}, and this launch may to {', '.join(spec.destinations)}"
            yield Violation(f"spec.sinks[{number}].{place.kind}", text, "FOREIGN_DESTINATION")


def _asked(text: query.Query, spec: spec_pb2.JobSpec, catalogue: LaunchCatalogue) -> daggersql.Checked:
    """What is found about the dagger's query."""
    tables = [
        daggersql.Table(
            stream.input.table,
            _message(catalogue, stream),
            stream.stream.time_field,
            query.has_records(spec.spec),
        )
        for stream in spec.streams
    ]
    return daggersql.check(
        text.sql,
        tables,
        [table.name for table in spec.references],
        expressions=text.expressions,
        early=state.updates(spec.spec),
        points=rulebook.is_time_series(spec.spec),
        accepted=True,
        conditions=rulebook.conditions(spec.spec),
    )


def _message(catalogue: LaunchCatalogue, stream: spec_pb2.ResolvedStream) -> Descriptor:
    try:
        return catalogue.message(stream.stream.message)
    except Unresolved:
        detail = f"Stream {stream.stream.name!r}: its message {stream.stream.message!r} is not in the job."
        raise internal("BAD_SPEC", detail) from None


def layout(spec: spec_pb2.JobSpec, plan: daggersql.Plan) -> Layout:
    """The columns of its rows."""
    records = query.has_records(spec.spec)
    return Layout(plan.columns, plan.hidden, plan.key, _fields(spec, plan), has_records=records)


def messages(spec: spec_pb2.JobSpec) -> bytes:
    """Every message that its streams and sinks name: a serialised `FileDescriptorSet`."""
    return descriptor_pb2.FileDescriptorSet.SerializeToString(spec.descriptors, deterministic=True)


def named_sinks(spec: spec_pb2.JobSpec) -> dict[str, bytes]:
    """Its sinks by their names, which each says, serialised."""
    names = rulebook.called([sink_.sink for sink_ in spec.sinks])
    return {name: _named(sink, name) for name, sink in zip(names, spec.sinks, strict=True)}


def _fields(spec: spec_pb2.JobSpec, plan: daggersql.Plan) -> tuple[tuple[str, int], ...]:
    """Of each visible column the message and the number of the field that it is, if it is one."""
    catalogue = LaunchCatalogue(spec)
    messages = {stream.input.table: _message(catalogue, stream) for stream in spec.streams}
    copied = (copy or ("", "") for copy in plan.copies)
    sources = ((messages.get(table), path) for table, path in copied)
    return tuple(
        (message.full_name, message.fields_by_name[path].number)
        if message is not None and path in message.fields_by_name
        else ("", 0)
        for message, path in sources
    )


def _named(sink: spec_pb2.ResolvedSink, name: str) -> bytes:
    """The sink with its name said, serialised."""
    named = spec_pb2.ResolvedSink()
    named.CopyFrom(sink)
    named.sink.name = name
    return named.SerializeToString(deterministic=True)
