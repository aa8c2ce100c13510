"""The `daggers` command: the composition root, and the one place where errors become exit codes.

0 done · 1 refused, or the wanted state not reached · 2 usage · 3 unreachable · 130 interrupted
"""

import itertools
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

import typer
from pydantic import ValidationError
from typer.exceptions import TyperException

from cli.commands import catalogue, daggers, demo, init, local, reading, version
from cli.errors import CliError, MisusedError
from cli.output import Format, print_error
from cli.session import Common, GatewayAddress, Output, StateDir
from cli.settings import Settings

INTERRUPTED = 130

app = typer.Typer(
    name="daggers",
    help="Self-serve SQL over Protobuf Kafka topics, run on Spark.",
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
):
    app.add_typer(group, name=name, no_args_is_help=True)


def main() -> None:
    """Run the command line of this process and exit."""
    signal.signal(signal.SIGTERM, _interrupt)
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """Run one command line; its exit code."""
    as_json = wants_json(argv)
    try:
        settings = Settings()
        code = typer.main.get_command(app).main(
            args=list(argv), prog_name="daggers", standalone_mode=False, obj=settings
        )
    except CliError as error:
        print_error(error, as_json=as_json)
        return error.exit_code
    except TyperException as error:
        misused = MisusedError(
            f"{error.format_message()} (daggers {_words(argv)} --help shows how)", reason="USAGE"
        )
        print_error(misused, as_json=as_json)
        return error.exit_code
    except ValidationError as error:
        print_error(_bad_settings(error), as_json=as_json)
        return MisusedError.exit_code
    except (KeyboardInterrupt, typer.Abort):
        return INTERRUPTED
    except BrokenPipeError:
        # the reader of our output went away (`daggers … | head`); keep Python from complaining at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    return code if isinstance(code, int) else 0


def wants_json(argv: Sequence[str]) -> bool:
    """Whether JSON was asked for, read off the words: a usage error comes before options are parsed."""
    joined = {"-ojson", "-o=json", "--output=json"}
    pairs = itertools.pairwise(argv)
    return any(word in joined for word in argv) or any(
        flag in ("-o", "--output") and value == Format.JSON for flag, value in pairs
    )


def _words(argv: Sequence[str]) -> str:
    """The command's name, as far as the words go that are no options."""
    words: list[str] = []
    for word in argv[:2]:
        if word.startswith("-"):
            break
        words.append(word)
    known = words if len(words) < 2 or words[0] in GROUPS else words[:1]
    return " ".join(known)


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


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    raise KeyboardInterrupt


GROUPS = frozenset(group.name for group in app.registered_groups)

if __name__ == "__main__":
    main()
