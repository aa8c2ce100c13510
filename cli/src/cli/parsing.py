"""The command line of one command, read whole: everything that is missing or wrong is told at once."""

from typing import Any

from typer.core import TyperCommand
from typer.exceptions import TyperException

from cli.errors import MisusedError
from daggerclient.findings import headline

MISUSED = 2


class Command(TyperCommand):
    """A command that looks at all of its parameters before it complains of the first."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As click has it. Raises MisusedError when more than one parameter is missing or wrong."""
        words = list(args)  # click's parser takes what it reads out of the list
        try:
            return super().parse_args(ctx, args)
        except TyperException as error:
            findings = self._findings(ctx, words) if error.exit_code == MISUSED else []
            if len(findings) < 2:
                raise
            raise MisusedError(
                f"{headline(findings)} (`{ctx.command_path} --help` shows how)", findings=findings
            ) from error

    def _findings(self, ctx: Any, words: list[str]) -> list[dict[str, Any]]:
        """One for each parameter that is missing or wrong; none when the words cannot be told apart."""
        try:
            given, rest, _ = self.make_parser(ctx).parse_args(args=words)
        except TyperException:
            return []
        found = []
        for parameter in self.get_params(ctx):
            try:
                parameter.handle_parse_result(ctx, given, rest)
            except TyperException as error:
                name = parameter.opts[0] if parameter.opts[0].startswith("-") else parameter.name.upper()
                # a parameter that is missing has no message of its own
                missing = {"code": "MISSING", "message": "is missing"}
                wrong = {"code": "BAD_VALUE", "message": error.message}
                found.append({**(wrong if error.message else missing), "field": name})
        return found
