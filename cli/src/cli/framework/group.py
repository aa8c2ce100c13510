"""Groups of commands, as each module of commands begins one."""

from typing import Any

import typer
from typer.core import TyperGroup

from cli.framework.parsing import MISUSED, plain_option, with_plain_values
from cli.output.printer import print_text


class Group(TyperGroup):
    """A group of commands that shows its help where none of them is called."""

    def __init__(self, *, params: Any = None, **further: Any) -> None:
        super().__init__(params=with_plain_values(params), **further)

    def get_help_option(self, ctx: Any) -> Any:
        """Make the option --help, which has a value on each command line, too."""
        return plain_option(super().get_help_option(ctx))

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse arguments as typer does, but show the help where there are none. Raises: typer.Exit."""
        if not args and not ctx.resilient_parsing:  # so a shell asks what may follow
            print_text(ctx.get_help())
            raise typer.Exit(MISUSED)
        return super().parse_args(ctx, args)


def group(about: str = "", cls: type[Group] = Group, **further: Any) -> typer.Typer:
    """Begin a group without commands. Its help is plain text: drawing frames takes longer than a command.

    about: its help; empty where its summary stands in a table of commands.
    """
    return typer.Typer(
        cls=cls,
        help=about,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        **further,
    )
