"""`daggers demo`: everything once, on a stack of its own, with a recount at the end."""

import shutil
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cli.checked_settings import read
from cli.errors import MisusedError, RefusedError
from cli.framework.gateway import Gateway
from cli.framework.group import group
from cli.framework.session import Session, command
from devstack import remembered
from devstack.commands.local import start, stop
from devstack.demo.forecast import announce_duration, further_steps
from devstack.processes import ignoring_signals
from devstack.settings import StackSettings

if TYPE_CHECKING:
    from devstack.demo.run import Verdict

SHOWN_MISMATCHES = 20


app = group()


@command(app, "demo", example="daggers demo --seconds 30")
def demo(
    session: Session,
    seconds: Annotated[
        float | None, typer.Option(min=1, help="How long to feed events; default: DEMO_SECONDS, or 60.")
    ] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Leave the stack up, as DEMO_KEEP=1 does.")] = False,
    sinks: Annotated[
        bool, typer.Option("--sinks", help="Write bookings to PostgreSQL and Parquet files, too.")
    ] = False,
    examples: Annotated[Path | None, typer.Option(help="The folder examples/ of a clone.")] = None,
) -> None:
    """Start a stack, and feed it events.

    Exit with 1 when a single row differs from the recount, in any sink.
    """
    # what they import would slow every other command
    from devstack.demo import database
    from devstack.demo.run import MONITOR, Demo, find_examples
    from devstack.demo.sinks import further
    from devstack.tools.install import install_postgres

    settings = read(StackSettings)
    keep = keep or settings.demo_keep
    if sinks and keep:
        raise MisusedError("--sinks and --keep are not for each other: PostgreSQL ends with the demo")
    feeding = seconds or settings.demo_seconds
    session.out.note(announce_duration(feeding, settings.tools_dir))
    folder = session.state_dir or Path(tempfile.mkdtemp(prefix="daggers-demo-")).resolve()
    failed = False
    with ExitStack() as servers:
        if sinks:
            install_postgres(settings.tools_dir, session.out.steps)
        server = servers.enter_context(database.serving(settings.tools_dir)) if sinks else None
        try:
            stack, _ = start(session, folder, monitor_env=MONITOR)
            session.out.note(f"look at it in a browser: {stack.portal}")
            more = further(stack, server) if server else ()
            with Gateway(stack.gateway, token_file=stack.token_file) as gateway:
                show = Demo(stack, gateway, examples or find_examples(), session.out, more)
                verdict = show.run(feeding)
            _answer(session, verdict)
        except Exception:
            failed = True
            raise
        finally:
            if keep:
                remembered.remember(session.settings.state_home, folder, remembered.INSTALLATION)
                session.out.note(f"the stack in {folder} is left up: `daggers local down` stops it")
            else:
                with ignoring_signals():
                    stop(session, folder)
                if failed:
                    session.out.note(f"logs are kept in {folder}")
                elif session.state_dir is None:
                    shutil.rmtree(folder, ignore_errors=True)
        session.out.note(further_steps(stays_up=keep))


def _answer(session: Session, verdict: "Verdict") -> None:
    aside = f"{verdict.late} late and {verdict.quarantined} broken or future records quarantined, as fed"
    if verdict.mismatches:
        session.out.note(verdict.sentence())
        findings = [{"code": "MISMATCH", "message": one} for one in verdict.mismatches[:SHOWN_MISMATCHES]]
        raise RefusedError(
            f"{len(verdict.mismatches)} mismatches", reason="MISMATCH", findings=findings,
            detail={"windows": verdict.windows, "rows": verdict.rows, "mismatches": len(verdict.mismatches)},
        )  # fmt: skip
    document = {
        "windows": verdict.windows,
        "rows": verdict.rows,
        "mismatches": 0,
        "late": verdict.late,
        "quarantined": verdict.quarantined,
    }
    session.out.print_result(document, f"{aside}\n{verdict.sentence()}")
