"""The `daggers` command: the composition root, and the one place where errors become exit codes.

0 done · 1 refused, or the wanted state not reached · 2 usage · 3 unreachable · 4 the answer not written
130 interrupted
"""

import contextlib
import itertools
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from functools import cache, partial
from types import FrameType
from typing import cast

import typer
from typer.exceptions import TyperException

from chassis.files import replace_text
from cli.commands.table import COMMANDS
from cli.environment import environment
from cli.errors import CliError, MisusedError, UnwrittenError
from cli.framework import completion, standard_streams
from cli.framework.extension import Extension, load_extension
from cli.framework.group import group
from cli.framework.lazy_commands import LazyGroup
from cli.framework.machine import is_refused, refusal
from cli.framework.session import Common, GatewayAddress, Output, StateDir
from cli.framework.standard_streams import OutputError
from cli.output.printer import Format, print_error
from cli.settings import CommandSettings

INTERRUPTED = 130
EPILOG = (
    "Exit codes: 0 done · 1 refused, or the wanted state not reached · 2 wrong command line · 3 unreachable"
    " · 4 the answer could not be written (a full disk, a terminal that is gone) · 130 interrupted. Warnings"
    " never change them, nor does a reader that has enough (`daggers … | head`), which is 0.\n\n"
    'With -o json an error is one document on stdout, {"error": {"reason", "message", "findings"}}. The'
    " reason of exit code 2 is always USAGE; any other says what it is, for example INVALID_FIELDS."
)


def assemble(extension: Callable[[], Extension]) -> LazyGroup:
    """Assemble every command, and those of the extension, none of them imported."""
    completion.register_shells()
    app = group("Self-serve SQL over Protobuf Kafka topics, run on Spark.", LazyGroup, epilog=EPILOG)
    app.callback()(_root)
    root = cast(LazyGroup, typer.main.get_group(app))
    root.name = completion.PROGRAM
    root.commands = dict(COMMANDS)
    root.extension = lambda: extension().commands()
    return root


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
    standard_streams.prepare()
    try:
        code = run(sys.argv[1:])
        standard_streams.finish()
    except OutputError as failure:
        code = _exit_code_of(failure)
    sys.exit(code)


def _exit_code_of(failure: OutputError) -> int:
    """Return the exit code for a result that could not be written completely."""
    standard_streams.silence(sys.stdout.fileno())
    if failure.is_read_enough:
        return 0
    print_error(UnwrittenError(str(failure)), as_json=False)
    return UnwrittenError.exit_code


def run(argv: Sequence[str], extension: Extension | None = None) -> int:
    """Run one command line; return its exit code.

    extension: the extension to use; None loads the installed one. Raises: OutputError.
    """
    as_json = wants_json(argv)
    settings = CommandSettings.read(environment())
    say = partial(print_error, as_json=as_json, command=settings.command)
    load = cache(lambda: extension or load_extension())
    root = assemble(load)
    try:
        code = root.main(args=list(argv), prog_name="daggers", standalone_mode=False, obj=(settings, load))
    except CliError as error:
        say(error)
        return error.exit_code
    except TyperException as error:
        misused = MisusedError(f"{error.format_message()} (`{_help(root, argv)}` shows how)")
        say(misused)
        return error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except OutputError:
        raise
    except OSError as error:
        say(refusal(error) if is_refused(error) else _bug(settings))
        return CliError.exit_code
    except Exception:  # noqa: BLE001 - the last resort: a stack trace is for us, not for a user
        say(_bug(settings))
        return CliError.exit_code
    return code if isinstance(code, int) else 0


def wants_json(argv: Sequence[str]) -> bool:
    """Return whether JSON is requested, judged by the words: usage errors occur before options are parsed."""
    joined = {"-ojson", "-o=json", "--output=json"}
    pairs = itertools.pairwise(argv)
    return any(word in joined for word in argv) or any(
        flag in ("-o", "--output") and value == Format.JSON for flag, value in pairs
    )


def _help(root: LazyGroup, argv: Sequence[str]) -> str:
    """Return the command line of the help that fits the words."""
    words = [word for word in argv[:2] if not word.startswith("-")]
    if not words or words[0] not in root.commands:
        return "daggers --help"
    within = words if getattr(root.commands[words[0]], "group", "") else words[:1]
    return " ".join(["daggers", *within, "--help"])


def _bug(settings: CommandSettings) -> CliError:
    """Build the error for an unexpected exception, and write its trace to a file."""
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
