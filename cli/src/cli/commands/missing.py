"""The commands of an embedded stack that is not installed: they say what to install."""

from typing import Never

from cli.errors import RefusedError
from cli.framework.extension import Missing
from cli.framework.group import group

app = group()
ANYTHING = {"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []}


@app.command("local", context_settings=ANYTHING, help="")
@app.command("demo", context_settings=ANYTHING, help="")
def refuse() -> Never:
    """Refuse."""
    raise RefusedError(f"there is no embedded stack: {Missing.HOW}", reason="NOT_INSTALLED")
