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
from pydantic import ValidationError
from typer.exceptions import TyperException

from cli.commands import catalogue, checking, daggers, demo, init, local, log, reading, references, version
from cli.errors import CliError, MisusedError
from cli.output import Format, print_error
from cli.session import Common, GatewayAddress, Output, StateDir
from cli.settings import Settings
from devstack.state import write

INTERRUPTED = 130
EPILOG = (
    "Exit codes: 0 done · 1 refused, or the wanted state not reached · 2 wrong command line · 3 unreachable"
    " · 130 interrupted. Warnings never change them.\n\n"
    'With -o json an error is one document on stdout, {"error": {"reason", "message", "findings"}}. The'
    " reason of exit code 2 is always USAGE; any other says what it is, for example INVALID_FIELDS."
)

app = typer.Typer(
    name="daggers",
    help="Self-serve SQL over Protobuf Kafka topics, run on Spark.",
    epilog=EPILOG,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


@app.callback()
def root(
    ctx: typer.Context,
    state_dir: StateDir = None,
    gateway: GatewayAddress = None,
    output: Output = None,
) -> None:
    """Self-serve SQL over Protobuf Kafka topics, run on Spark."""
    ctx.obj = Common(ctx.obj, state_dir, gateway, output)


daggers.add(app)
checking.add(app)
reading.add(app)
init.add(app)
demo.add(app)
version.add(app)
for name, group in (
    ("local", local.app),
    ("cluster", catalogue.clusters),
    ("schema", catalogue.schemas),
    ("stream", catalogue.streams),
    ("quarantine", reading.quarantine),
    ("sql", checking.sql),
    ("reference", references.references),
    ("log", log.app),
):
    app.add_typer(group, name=name, no_args_is_help=True)


def main() -> None:
    """Run the command line of this process and exit."""
    # also where a script's background job has inherited "ignore" for SIGINT; but nohup stays nohup
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        signal.signal(signal.SIGHUP, _interrupt)
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """Run one command line; its exit code."""
    as_json = wants_json(argv)
    try:
        settings = Settings()
    except ValidationError as error:
        print_error(_bad_settings(error), as_json=as_json)
        return MisusedError.exit_code
    try:
        code = typer.main.get_command(app).main(
            args=list(argv), prog_name="daggers", standalone_mode=False, obj=settings
        )
    except CliError as error:
        print_error(error, as_json=as_json)
        return error.exit_code
    except TyperException as error:
        if not error.format_message():  # a group without a command: its help has been shown
            return error.exit_code
        misused = MisusedError(f"{error.format_message()} (`{_help(argv)}` shows how)")
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


def _help(argv: Sequence[str]) -> str:
    """The command line that explains what was probably meant."""
    known = [word for word in argv[:2] if not word.startswith("-")]
    if not known or known[0] not in GROUPS | COMMANDS:
        return "daggers --help"
    return " ".join(["daggers", *(known if known[0] in GROUPS else known[:1]), "--help"])


def _bad_settings(error: ValidationError) -> CliError:
    findings = [
        {
            "code": "BAD_SETTING",
            "field": ".".join(map(str, problem["loc"])),
            "message": problem["msg"],
        }
        for problem in error.errors(include_url=False, include_input=False, include_context=False)
    ]
    return MisusedError("an environment variable has a value that cannot be used", findings=findings)


def _bug(settings: Settings) -> CliError:
    """What to say of an error that nobody foresaw; its trace goes to a file."""
    trace = traceback.format_exc()
    file = settings.state_home / "daggers" / "last-crash.log"
    where = ""
    with contextlib.suppress(OSError):
        file.parent.mkdir(parents=True, exist_ok=True)
        write(file, trace)
        where = f"; report it with {file}"
    return CliError(f"this is a mistake in daggers itself{where}", reason="INTERNAL")


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


GROUPS = frozenset(str(group.name) for group in app.registered_groups)
COMMANDS = frozenset(str(each.name) for each in app.registered_commands)

if __name__ == "__main__":
    main()
