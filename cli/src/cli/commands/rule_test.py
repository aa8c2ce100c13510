"""`daggers alerts test`: what the rules of a dagger file would have said of records that are there."""

from daggers.v1 import gateway_pb2

from cli.commands.preview_range import PREVIEW_S, From, Last, LastRecords, To, build_range
from cli.errors import MisusedError, RefusedError
from cli.framework.arguments import File, FileFlag, one_file
from cli.framework.session import Session
from cli.output import preview_text, rule_test_text


def try_rules(
    session: Session,
    file: File = None,
    flag: FileFlag = None,
    *,
    last: Last = "",
    last_records: LastRecords = None,
    begin: From = "",
    end: To = "",
) -> None:
    """Show which rules of a dagger file would have fired, when, and for which keys; write nothing.

    The query runs over records by Kafka's time as `daggers preview` runs it. Its whole windows are judged as
    by a driver that began with the first of them. Not simulated: deliveries, silences, the delay of sinks.
    """
    from cli.files.dagger_file import one_dagger, with_place  # what reads files takes long to load

    place = one_file(file, flag)
    one = one_dagger(session, place, "tested")
    if not one.spec.alerts:
        raise MisusedError(f"{place}: it has no alerts")
    request = gateway_pb2.PreviewDaggerRequest(name=one.name, spec=one.spec, max_rows=1)
    if (range_ := build_range(last, last_records, begin, end)) is not None:
        request.range.CopyFrom(range_)
    with session.connect() as gateway:
        steps = gateway.stream(gateway.daggers.PreviewDagger, request, deadline_s=PREVIEW_S)
        try:
            done = preview_text.follow(session.out, steps).done or preview_text.Done()
        except RefusedError as refusal:
            if refusal.findings:
                raise with_place(refusal, one, str(place)) from refusal
            raise
    session.out.show(rule_test_text.document(done), lambda out: rule_test_text.show(out, done))
