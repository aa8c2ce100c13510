"""`daggers log`: the topics that are the truth, as files: export, verify, restore with the same sequences."""

import asyncio
import logging
import os
import sys
from collections.abc import Coroutine, Iterator
from contextlib import aclosing, contextmanager, nullcontext
from itertools import islice
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeVar

import typer

from cli.checked_settings import KafkaLogin
from cli.checked_settings import read as read_settings
from cli.errors import MisusedError, RefusedError, UnreachableError
from cli.framework.group import group
from cli.framework.session import Session, command
from cli.output.printer import print_findings
from eventlog import LogDamaged, LogError, LogUnavailable, read_record
from eventlog.copying import RestoreRefused, first_sequence, read_messages, restore, retention_problems
from eventlog.export import (
    ExportDamaged,
    ExportEntry,
    ExportWriter,
    Head,
    LogReport,
    blank_entry,
    close_gaps,
    present,
    read,
)
from eventlog.topics import CONTROL
from fleet.fold.forged_records import forged_name
from kafkaclient import Connection

log = group()
SHOWN = 20
T = TypeVar("T")

Kafka = Annotated[
    str | None,
    typer.Option(
        "--kafka",
        metavar="HOST:PORT",
        help="Bootstrap servers, with DAGGERS_KAFKA_… as login; default: the local stack's.",
    ),
]
TopicName = Annotated[str, typer.Option("--topic", help="daggers.control or daggers.alerts.")]


@command(log, "export", example="daggers log export control.jsonl")
def export(
    session: Session,
    file: Annotated[
        Path,
        typer.Argument(
            writable=True, allow_dash=True, help="File to create; it must not exist. `-`: standard output."
        ),
    ],
    topic: TopicName = CONTROL,
    kafka: Kafka = None,
) -> None:
    """Write every record of a topic to a file: sequence, key, headers, timestamp, value, digest.

    The topic may be written to meanwhile: the file ends where the topic ended at the beginning.
    """
    if session.out.is_standard_output(file):
        report = _wait(_export(_connection(session, kafka), topic, sys.stdout))
        _warn(session, report)
        session.out.note(f"{report.records} records of {topic} are written")
        return
    _check_absent(file)
    with _open_durable(file) as out:
        report = _wait(_export(_connection(session, kafka), topic, out))
    findings = _warn(session, report)
    document = {"file": str(file), "topic": topic, **_document(report), "findings": findings}
    session.out.print_result(document, f"{report.records} records of {topic} are in {file}")


@command(log, "verify", example="daggers log verify control.jsonl")
def verify(
    session: Session,
    file: Annotated[Path | None, typer.Argument(help="An exported file; default: the topic itself.")] = None,
    topic: TopicName = CONTROL,
    kafka: Kafka = None,
) -> None:
    """Verify an exported file, or the topic, from its first to its last record, and list its problems.

    Exit with 1 when records are missing, were changed, or are not kept for ever. Records that this version
    cannot read are only listed: they may be of a newer one.
    """
    wrong: list[str] = []
    if file is not None:
        head, report = _read(file)
        subject, topic = str(file), head.topic
    else:
        address = _connection(session, kafka)
        wrong, report = _wait(_look(address, topic))
        subject = f"topic {topic}"
    findings = [{"code": "NOT_KEPT", "message": f"{subject}: {detail}"} for detail in wrong]
    findings += _gaps(report)
    if findings:
        raise RefusedError(
            f"{subject} is not a whole log", reason="LOG_DAMAGED", findings=findings, detail=_document(report)
        )
    document = {"topic": topic, **_document(report), "findings": _warn(session, report)}
    session.out.print_result(document, f"{subject} is whole: {report.records} records")


@command(log, "restore", example="daggers log restore control.jsonl --dry-run")
def restore_(
    session: Session,
    file: Annotated[Path, typer.Argument(help="File that `daggers log export` wrote.")],
    topic: Annotated[
        str | None, typer.Option("--topic", help="Topic to restore; default: that of the file.")
    ] = None,
    kafka: Kafka = None,
    recreate: Annotated[
        bool, typer.Option("--recreate", help="Delete the topic first, with all that it holds.")
    ] = False,
    fill_gaps: Annotated[
        bool,
        typer.Option(
            "--fill-gaps",
            help="Write records without content where the file has gaps: those records are lost.",
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show what would be written, and write nothing.")
    ] = False,
) -> None:
    """Restore a topic from a file, every record at its sequence, and read it back.

    Stop every gateway, scheduler and health monitor first; drivers go on. The file is read to its end before
    anything is written. A topic that is missing or empty is filled, one that holds the beginning of the file
    is completed. Anything else is refused: a topic that differs, goes on behind the file, lost its beginning,
    has several partitions, or is not kept for ever.
    """
    address = _connection(session, kafka)
    head, report = _read(file)
    if report.gaps and not fill_gaps:
        raise RefusedError(
            f"{file} lacks {report.missing} records: what they said is lost. Restore another file, or accept"
            " that by --fill-gaps",
            reason="RECORDS_MISSING",
            findings=_gaps(report),
        )
    target = topic or head.topic
    restoring = restore(
        address, target, lambda: close_gaps(_entries(file)), recreate=recreate, dry_run=dry_run
    )
    done = _wait(restoring)
    document = {"topic": target, "kept": done.existing, "written": done.written, "dry_run": dry_run}
    verb = "would be written" if dry_run else "were written"
    session.out.print_result(
        document, f"{done.written} records {verb} to {target}, {done.existing} stand there already"
    )


@command(log, "clean", example="daggers log clean control.jsonl cleaned.jsonl")
def clean(
    session: Session,
    file: Annotated[Path, typer.Argument(help="File that `daggers log export` wrote.")],
    cleaned: Annotated[
        Path,
        typer.Argument(
            writable=True, allow_dash=True, help="File to create; it must not exist. `-`: standard output."
        ),
    ],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="List the records, and write nothing.")] = False,
) -> None:
    """Rewrite an exported log without records of daggers with names that are not allowed, as a forged `..`.

    Replace each by a record without content, so that all others keep their sequences. Then stop every
    service, `daggers log restore CLEANED --recreate`, and give gateways an empty database.
    """
    _read(file)
    if session.out.is_standard_output(cleaned) and not dry_run:
        session.out.note(f"{len(_clean(file, sys.stdout))} records were removed")
        return
    _check_absent(cleaned)
    with nullcontext() if dry_run else _open_durable(cleaned) as out:
        removed = _clean(file, out)
    findings = [{"code": "FORGED_NAME", "message": record["message"]} for record in removed[:SHOWN]]
    print_findings(session.out.messages, findings)
    document = {"file": str(file), "cleaned": str(cleaned), "removed": removed, "dry_run": dry_run}
    verb = "would be removed" if dry_run else "were removed"
    session.out.print_result(document, f"{len(removed)} records {verb}")


def _clean(file: Path, out: TextIO | None) -> list[dict[str, Any]]:
    """Write the file without forged records, or nothing where `out` is None; return these records."""
    removed: list[dict[str, Any]] = []
    with file.open(encoding="utf-8", errors="replace") as lines:
        head, entries = read(lines)
        writer = ExportWriter(head)
        write = out.write if out is not None else len
        write(writer.begin())
        for entry in entries:
            record = read_record(entry.sequence, present(entry.headers), entry.value)
            name = forged_name(record)
            if name is not None:
                text = f"record {record.sequence} ({record.type.rpartition('.')[2]}) is about {name!r}"
                removed.append({"sequence": record.sequence, "name": name, "message": text})
            write(writer.add(entry if name is None else blank_entry(entry)))
        write(writer.end())
    return removed


def _check_absent(file: Path) -> None:
    """Check that a file to be created does not exist. Raises: RefusedError."""
    if file.exists():
        raise RefusedError(f"{file} exists already: name another file", reason="FILE_EXISTS")


@contextmanager
def _open_durable(file: Path) -> Iterator[TextIO]:
    """Open a file that appears, whole and durable, once the block has ended well. Raises: RefusedError."""
    try:
        with _part_of(file) as part:
            with part.open("w", encoding="utf-8") as out:
                yield out
                out.flush()
                os.fsync(out.fileno())
            part.replace(file)
    except OSError as error:
        raise RefusedError(
            f"{file} cannot be written: {error.strerror}; `-` in its place is standard output",
            reason="FILE_UNWRITABLE",
        ) from error


@contextmanager
def _part_of(file: Path) -> Iterator[Path]:
    """Create an empty file beside the final one, and remove it at the end. Raises: OSError; RefusedError."""
    part = file.with_name(f"{file.name}.part")
    try:
        part.touch(exist_ok=False)
    except FileExistsError as error:
        raise RefusedError(
            f"{part} exists: another export writes it, or one was killed; then remove it",
            reason="FILE_EXISTS",
        ) from error
    try:
        yield part
    finally:
        part.unlink(missing_ok=True)


async def _export(address: Connection, topic: str, out: TextIO) -> LogReport:
    report = LogReport()
    writer = ExportWriter(Head(topic, await first_sequence(address, topic)))
    out.write(writer.begin())
    async with aclosing(read_messages(address, topic)) as entries:
        async for entry in entries:
            report.add(entry)
            out.write(writer.add(entry))
    out.write(writer.end())
    out.flush()
    return report


async def _look(address: Connection, topic: str) -> tuple[list[str], LogReport]:
    report = LogReport()
    await first_sequence(address, topic)
    async with aclosing(read_messages(address, topic)) as entries:
        async for entry in entries:
            report.add(entry)
    return await retention_problems(address, topic), report


def _read(file: Path) -> tuple[Head, LogReport]:
    """Read the whole file once. Raises: RefusedError where it is not as exported."""
    report = LogReport()
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            head, entries = read(lines)
            for entry in entries:
                report.add(entry)
    except ExportDamaged as error:
        raise RefusedError(f"{file} is damaged: {error}", reason="EXPORT_DAMAGED") from error
    except OSError as error:
        raise MisusedError(f"{file} cannot be read: {error.strerror}") from error
    return head, report


def _entries(file: Path) -> Iterator[ExportEntry]:
    with file.open(encoding="utf-8", errors="replace") as lines:
        yield from read(lines)[1]


def _connection(session: Session, kafka: str | None) -> Connection:
    """Return the connection to `kafka`, with the login of DAGGERS_KAFKA_…; else to the local stack's, without
    one.
    """
    return read_settings(KafkaLogin).at(kafka) if kafka else Connection(session.kafka())


def _wait(work: Coroutine[Any, Any, T]) -> T:
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)  # what it says, the error says too
    try:
        return asyncio.run(work)
    except LogUnavailable as error:
        raise UnreachableError(str(error), reason="KAFKA_UNAVAILABLE") from error
    except ExportDamaged as error:
        raise RefusedError(f"the file changed meanwhile: {error}", reason="EXPORT_DAMAGED") from error
    except LogError as error:
        reason = {RestoreRefused: "RESTORE_REFUSED", LogDamaged: "LOG_DAMAGED"}.get(
            type(error), "LOG_UNUSABLE"
        )
        raise RefusedError(str(error), reason=reason) from error


def _document(report: LogReport) -> dict[str, Any]:
    return {"records": report.records, "last": report.last, "missing": report.missing}


def _gaps(report: LogReport) -> list[dict[str, Any]]:
    return [
        {"code": "MISSING", "message": f"sequences {first} to {last} hold nothing"}
        for first, last in islice(report.gaps, SHOWN)
    ]


def _warn(session: Session, report: LogReport) -> list[dict[str, Any]]:
    """Print findings that do not damage the log as warnings on stderr, and return them."""
    findings = _gaps(report) + [
        {
            "code": "UNREADABLE",
            "message": f"the record at sequence {record.sequence} (type {record.type or 'unknown'!r}, about"
            f" {record.subject or 'nobody'!r}) cannot be read by this version",
        }
        for record in islice(report.unreadable, SHOWN)
    ]
    warnings = [{**finding, "severity": "warning"} for finding in findings]
    print_findings(session.out.messages, warnings)
    return warnings
