"""The `daggers` command: the composition root, and the one place where errors become exit codes.

0 done · 1 refused, or the wanted state not reached · 2 usage · 3 unreachable · 130 interrupted
"""

import contextlib
import itertools
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType

import typer
from typer.exceptions import TyperException

from chassis.files import replace_text
from cli.commands import alerts, catalogue, checking, daggers, init, log, reading, references, version
from cli.errors import CliError, MisusedError
from cli.extension import Extension, installed
from cli.gateway import in_words
from cli.output import Format, print_error
from cli.session import Common, GatewayAddress, Output, StateDir
from cli.settings import Settings, read
from daggerclient import ClientError

INTERRUPTED = 130
EPILOG = (
    "Exit codes: 0 done · 1 refused, or the wanted state not reached · 2 wrong command line · 3 unreachable"
    " · 130 interrupted. Warnings never change them.\n\n"
    'With -o json an error is one document on stdout, {"error": {"reason", "message", "findings"}}. The'
    " reason of exit code 2 is always USAGE; any other says what it is, for example INVALID_FIELDS."
)


def assembled(extension: Extension) -> typer.Typer:
    """Every command, and those of the extension."""
    app = typer.Typer(
        name="daggers",
        help="Self-serve SQL over Protobuf Kafka topics, run on Spark.",
        epilog=EPILOG,
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
    )
    app.callback()(_root)
    for each in (daggers, checking, reading, init, extension, version):
        each.add(app)
    for name, group in (
        ("cluster", catalogue.clusters),
        ("schema", catalogue.schemas),
        ("stream", catalogue.streams),
        ("alerts", alerts.alerts),
        ("quarantine", reading.quarantine),
        ("sql", checking.sql),
        ("reference", references.references),
        ("log", log.app),
    ):
        app.add_typer(group, name=name, no_args_is_help=True)
    return app


def _root(
    ctx: typer.Context,
    state_dir: StateDir = None,
    gateway: GatewayAddress = None,
    output: Output = None,
) -> None:
    """Self-serve SQL over Protobuf Kafka topics, run on Spark."""
    settings, extension = ctx.obj
    ctx.obj = Common(settings, extension, state_dir, gateway, output)


def main() -> None:
    """Run the command line of this process and exit."""
    # also where a script's background job has inherited "ignore" for SIGINT; but nohup stays nohup
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str], extension: Extension | None = None) -> int:
    """Run one command line; its exit code.

    extension: what else there is beside the command; None takes what is installed.
    """
    as_json = wants_json(argv)
    try:
        settings = read(Settings)
    except MisusedError as error:
        print_error(error, as_json=as_json)
        return error.exit_code
    extension = extension or installed()
    app = assembled(extension)
    try:
        code = typer.main.get_command(app).main(
            args=list(argv), prog_name="daggers", standalone_mode=False, obj=(settings, extension)
        )
    except (CliError, ClientError) as error:
        told = in_words(error) if isinstance(error, ClientError) else error
        print_error(told, as_json=as_json)
        return told.exit_code
    except TyperException as error:
        if not error.format_message():  # a group without a command: its help has been shown
            return error.exit_code
        misused = MisusedError(f"{error.format_message()} (`{_help(app, argv)}` shows how)")
        print_error(misused, as_json=as_json)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # the reader of our output went away (`daggers … | head`); keep Python from complaining at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception:  # noqa: BLE001 - the last resort: a stack trace is for us, not for a user
        print_error(_bug(settings), as_json=as_json)
        return CliError.exit_code
    return code if isinstance(code, int) else 0


def wants_json(argv: Sequence[str]) -> bool:
    """Whether JSON was asked for, read off the words: a usage error comes before options are parsed."""
    joined = {"-ojson", "-o=json", "--output=json"}
    pairs = itertools.pairwise(argv)
    return any(word in joined for word in argv) or any(
        flag in ("-o", "--output") and value == Format.JSON for flag, value in pairs
    )


def _help(app: typer.Typer, argv: Sequence[str]) -> str:
    """The command line that explains what was probably meant."""
    groups = {group.name for group in app.registered_groups}
    known = [word for word in argv[:2] if not word.startswith("-")]
    if not known or known[0] not in groups | {command.name for command in app.registered_commands}:
        return "daggers --help"
    return " ".join(["daggers", *(known if known[0] in groups else known[:1]), "--help"])


def _bug(settings: Settings) -> CliError:
    """What to say of an error that nobody foresaw; its trace goes to a file."""
    trace = traceback.format_exc()
    file = settings.state_home / "daggers" / "last-crash.log"
    where = ""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        replace_text(file, trace, private=True)
        where = f"; report it with {file}"
    return CliError(f"this is a mistake in daggers itself{where}", reason="INTERNAL")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


if __name__ == "__main__":
    main()
