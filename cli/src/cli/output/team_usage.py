"""Show the quotas of a team with their use, and the costs of its daggers. Pure."""

from collections.abc import Iterable, Sequence

from daggers.v1 import access_service_pb2 as pb

from chassis.durations import rough
from cli.output.vitals import NONE, short, size
from daggerclient.teamfile import QUOTAS

QUOTA_COLUMNS = ("QUOTA", "USED", "SOFT", "HARD", "")
COST_COLUMNS = ("NAME", "FOR", "CPU-S/DAY", "MEMORY", "RECORDS/DAY", "STATE")
COST_WIDE = (*COST_COLUMNS, "CPU-S", "RECORDS", "REC/S", "ROWS/MIN", "RESERVED")
"""RESERVED is the memory that its launch counts in the quota."""
_KEYS = {field: key for key, (field, _) in QUOTAS.items()}
_MIB = 2**20


def quotas(uses: Iterable[pb.QuotaUse]) -> list[Sequence[str]]:
    """Build a row of QUOTA_COLUMNS for each quota."""
    return [
        (
            _KEYS.get(use.name, use.name),
            _number(use, use.used),
            *(
                _number(use, getattr(use.quota, bound)) if use.quota.HasField(bound) else NONE
                for bound in ("soft", "hard")
            ),
            verdict(use),
        )
        for use in uses
    ]


def verdict(use: pb.QuotaUse) -> str:
    """Return whether a quota is used up, or above its soft limit, in words."""
    if use.quota.HasField("hard") and use.used >= use.quota.hard:
        return "used up"
    return "above soft" if use.quota.HasField("soft") and use.used > use.quota.soft else ""


def costs(daggers: Iterable[pb.DaggerCost], *, wide: bool) -> list[Sequence[str]]:
    """Build a row of COST_COLUMNS, or COST_WIDE, for each dagger."""
    rows: list[Sequence[str]] = []
    for dagger in daggers:
        is_measured = dagger.HasField("age")
        row = (
            dagger.dagger,
            rough(dagger.age.ToTimedelta()) if is_measured else NONE,
            short(dagger.cpu_seconds_per_day) if is_measured else NONE,
            size(dagger.memory_bytes),
            short(dagger.records_per_day) if is_measured else NONE,
            size(dagger.state_bytes),
        )
        further = (
            short(dagger.cpu_seconds) if is_measured else NONE,
            short(dagger.records) if is_measured else NONE,
            short(dagger.records_per_second),
            short(dagger.rows_per_minute),
            size(dagger.launch_memory_mib * _MIB),
        )
        rows.append((*row, *further) if wide else row)
    return rows


def _number(use: pb.QuotaUse, value: float) -> str:
    return size(round(value) * _MIB) if use.name == "memory_mib" else short(value)
