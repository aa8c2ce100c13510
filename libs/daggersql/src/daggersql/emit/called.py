"""Functions of Spark that emitted SQL may call. The driver's guard allows no others.

They are those of operators, of the forms of the dialect's functions, and of the SQL around expressions.
"""

from __future__ import annotations

import re
from functools import cache

from daggersql.emit.casts import CAST_TEMPLATES
from daggersql.emit.comparisons import COMPARED_TEMPLATES
from daggersql.emit.operators import BOUNDS, TEMPLATES
from daggersql.functions import registry

AROUND_EXPRESSIONS = frozenset({
    "array", "coalesce", "least", "min", "named_struct", "nullif", "posexplode", "session_window", "size",
    "sum", "try_sum", "window",
})  # fmt: skip
"""Functions that `queries`, `since` and `partial` write beside templates."""
RAISES = "raise_error"
"""Forms end the dagger with it. The guard looks at its text, so it is none of the functions below."""
# They look like calls, and are none to Spark.
_SYNTAX = frozenset({"timestampadd", "timestampdiff", "try_cast"})
_PARTS = re.compile(r"'[^']*'|\b([a-z_][a-z0-9_]*)\(")


@cache
def functions() -> frozenset[str]:
    """Spark's functions, in lower case; not our own, which each plan names."""
    shared = [*TEMPLATES.values(), *BOUNDS.values(), *CAST_TEMPLATES, *COMPARED_TEMPLATES]
    shared += [
        form.template for function in registry.all_functions() if not function.own for form in function.forms
    ]
    ours = {function.name.lower() for function in registry.own()}
    # A function of ours may need more than one of Spark's: `features` and `features_toomany`.
    of_ours = {name for form in registry.forms() for name in names(form.template)}
    called = {name for template in shared for name in names(template)}
    called |= {name for name in of_ours if name.partition("_")[0] not in ours}
    return (AROUND_EXPRESSIONS | called) - _SYNTAX - {RAISES}


def names(template: str) -> list[str]:
    """List the functions that SQL calls, ignoring its text constants."""
    return [name for name in _PARTS.findall(template) if name]
