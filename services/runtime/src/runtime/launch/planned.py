"""Read and check a launch's spec without Spark: its plan, its violations, the columns of its rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from daggers.v1 import rules_pb2, spec_pb2
from google.protobuf import descriptor_pb2
from google.protobuf.descriptor import Descriptor
from google.protobuf.message import DecodeError

import daggersql
from daggerspec import alertrules, late, query, rules, state
from daggerspec import sinks as rulebook
from daggerspec.catalogue import UnresolvedName
from daggerspec.kind import ValidationContext
from daggerspec.launch import LaunchCatalogue
from daggerspec.violation import Violation
from daggersql.rules.compiled import rule_texts
from runtime.encode.rows import Layout
from runtime.errors import internal, violation_error


def read_spec(path: Path, generation: int) -> spec_pb2.JobSpec:
    """Read the launch's file. Raises: JobError (INTERNAL) if it is unreadable, or of another generation."""
    try:
        spec = spec_pb2.JobSpec.FromString(path.read_bytes())
    except OSError as problem:
        raise internal("BAD_SPEC", f"The launch's file {path} cannot be read: {problem.strerror}.") from None
    except DecodeError:
        raise internal("BAD_SPEC", f"The launch's file {path} is not a JobSpec.") from None
    if spec.generation != generation:
        stated = f"generation {spec.generation}, the command line says {generation}"
        raise internal("BAD_SPEC", f"The launch's file {path} says {stated}.")
    return spec


def check_spec(spec: spec_pb2.JobSpec) -> daggersql.Plan:
    """Check the spec, and return the plan of the dagger's SQL.

    Raises: JobError: USER with all violations, INTERNAL for a spec without its defaults. The gateway has
    checked the spec before, perhaps long ago: violations of newer checks of a query are warnings here. The
    driver checks again all the same what it hands to Spark.
    """
    if left := rules.default_fields(spec.dagger, spec.spec):
        raise internal("BAD_SPEC", f"The launch's spec does not say {', '.join(left)}.")
    catalogue = LaunchCatalogue(spec)
    answer, text = daggersql.CheckResult(None, ()), query.of(spec.spec)
    if rules.is_judgeable(spec.spec, catalogue):
        answer = _check_query(text, spec, catalogue)
    context = ValidationContext(spec.dagger, spec.spec, catalogue, answer.plan)
    violations = list(rules.violations("spec", context, rulebook.all_resolved("spec", context)))
    violations += answer.wrong_conditions("spec.sinks", [sink.when for sink in spec.spec.sinks])
    violations += answer.wrong_rules("spec.alerts")
    violations += _find_foreign_destinations(spec)
    errors = [one for one in answer.findings if one.severity is daggersql.Severity.ERROR]
    violations += [text.locate("spec", error.violation("")) for error in errors]
    if violations or answer.plan is None:
        raise violation_error(violations)
    return answer.plan


def compile_rules(spec: spec_pb2.JobSpec, rules: rules_pb2.AlertRules) -> tuple[daggersql.CompiledRule, ...]:
    """Compile alert rules by the launch's query. Raises: JobError (USER) with all that is wrong with them."""
    changed = spec_pb2.JobSpec()
    changed.CopyFrom(spec)
    del changed.spec.alerts[:]
    changed.spec.alerts.extend(rules.rules)
    changed.references.extend(alertrules.read_tables(rules))
    answer = _check_query(query.of(spec.spec), changed, LaunchCatalogue(changed))
    wrong = [*alertrules.violations("spec.alerts", changed.spec), *answer.wrong_rules("spec.alerts")]
    if wrong or answer.plan is None:
        raise violation_error(wrong)
    return answer.plan.rules


def _find_foreign_destinations(spec: spec_pb2.JobSpec) -> Iterator[Violation]:
    """Yield violations of sinks whose destinations are not among the team's, where the spec lists these."""
    for number, sink in enumerate(spec.sinks):
        place = rulebook.destination(sink)
        if spec.destinations and place is not None and str(place) not in spec.destinations:
            text = f"would write to {place}, and this launch may to {', '.join(spec.destinations)}"
            yield Violation(f"spec.sinks[{number}].{place.kind}", text, "FOREIGN_DESTINATION")


def _check_query(
    text: query.Query, spec: spec_pb2.JobSpec, catalogue: LaunchCatalogue
) -> daggersql.CheckResult:
    """Check the dagger's query by its streams, references and conditions."""
    tables = [
        daggersql.Table(
            stream.input.table,
            _find_message(catalogue, stream),
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
        early=state.is_early(spec.spec),
        allowed_lateness=late.allowed_lateness(spec.spec),
        points=rulebook.is_time_series(spec.spec),
        accepted=True,
        conditions=rulebook.conditions(spec.spec),
        rules=rule_texts(spec.spec.alerts),
    )


def _find_message(catalogue: LaunchCatalogue, stream: spec_pb2.ResolvedStream) -> Descriptor:
    try:
        return catalogue.message(stream.stream.message)
    except UnresolvedName:
        detail = f"Stream {stream.stream.name!r}: its message {stream.stream.message!r} is not in the job."
        raise internal("BAD_SPEC", detail) from None


def layout(spec: spec_pb2.JobSpec, plan: daggersql.Plan) -> Layout:
    """Return the layout of the dagger's rows."""
    records = query.has_records(spec.spec)
    return Layout(plan.columns, plan.hidden, plan.key, _copied_fields(spec, plan), has_records=records)


def messages(spec: spec_pb2.JobSpec) -> bytes:
    """Serialise the `FileDescriptorSet` of all messages that streams and sinks name."""
    return descriptor_pb2.FileDescriptorSet.SerializeToString(spec.descriptors, deterministic=True)


def named_sinks(spec: spec_pb2.JobSpec) -> dict[str, bytes]:
    """Serialise the resolved sinks, by their names; each has its name set."""
    names = rulebook.display_names([sink_.sink for sink_ in spec.sinks])
    return {name: _with_name(sink, name) for name, sink in zip(names, spec.sinks, strict=True)}


def _copied_fields(spec: spec_pb2.JobSpec, plan: daggersql.Plan) -> tuple[tuple[str, int], ...]:
    """Return message and field number of each visible column; ("", 0) for one that copies no field."""
    catalogue = LaunchCatalogue(spec)
    messages = {stream.input.table: _find_message(catalogue, stream) for stream in spec.streams}
    copies = (copy or ("", "") for copy in plan.copies)
    sources = ((messages.get(table), path) for table, path in copies)
    return tuple(
        (message.full_name, message.fields_by_name[path].number)
        if message is not None and path in message.fields_by_name
        else ("", 0)
        for message, path in sources
    )


def _with_name(sink: spec_pb2.ResolvedSink, name: str) -> bytes:
    """Serialise a sink with its name set."""
    named = spec_pb2.ResolvedSink()
    named.CopyFrom(sink)
    named.sink.name = name
    return named.SerializeToString(deterministic=True)
