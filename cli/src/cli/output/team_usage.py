"""What a team takes, for people: its quotas with what is used of them, and what its daggers cost. Pure."""

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
    """A line for each quota: QUOTA_COLUMNS."""
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
    """Whether a quota is used up."""
    if use.quota.HasField("hard") and use.used >= use.quota.hard:
        return "used up"
    return "above soft" if use.quota.HasField("soft") and use.used > use.quota.soft else ""


def costs(daggers: Iterable[pb.DaggerCost], *, wide: bool) -> list[Sequence[str]]:
    """A line for each dagger: COST_COLUMNS, or COST_WIDE."""
    rows: list[Sequence[str]] = []
    for dagger in daggers:
        heard = dagger.HasField("age")
        row = (
            dagger.dagger,
            rough(dagger.age.ToTimedelta()) if heard else NONE,
            short(dagger.cpu_seconds_per_day) if heard else NONE,
            size(dagger.memory_bytes),
            short(dagger.records_per_day) if heard else NONE,
            size(dagger.state_bytes),
        )
        further = (
            short(dagger.cpu_seconds) if heard else NONE,
            short(dagger.records) if heard else NONE,
            short(dagger.records_per_second),
            short(dagger.rows_per_minute),
            size(dagger.launch_memory_mib * _MIB),
        )
        rows.append((*row, *further) if wide else row)
    return rows


def _number(use: pb.QuotaUse, value: float) -> str:
    return size(round(value) * _MIB) if use.name == "memory_mib" else short(value)
