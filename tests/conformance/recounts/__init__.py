"""What accepted queries must give, counted a second time in plain Python, a function beside each case."""

from __future__ import annotations

from collections.abc import Mapping

from tests.conformance.corpus import public
from tests.conformance.recounts import forwarding, joins, top, windows
from tests.conformance.recounts.own import QUERIES, Query
from tests.conformance.recounts.reading import Recount


def _of_the_corpus() -> Mapping[str, Query]:
    recounts: dict[str, Recount] = {
        name.upper().replace("_", "-"): recount
        for module in (windows, forwarding, joins)
        for name, recount in vars(module).items()
        if name.startswith("acc_")
    }
    accepted = {case["id"]: case for case in public().cases("sql_accept")}
    return {
        name: Query(accepted[name]["sql"], tuple(accepted[name]["streams"]), recount)
        for name, recount in recounts.items()
    }


ALL: Mapping[str, Query] = {**_of_the_corpus(), **QUERIES, **top.QUERIES}
"""Every recounted query: by its name in the corpus, or by what it shows."""
