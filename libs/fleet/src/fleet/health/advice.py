"""Advice about problems of daggers, teams and principals: who has to act, and what to do next. One table.
Pure.

Both `dagger_warnings` and the pages of the health monitor read it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Final

from daggers.v1 import alerts_pb2, events_pb2

from daggerspec import anew
from daggerspec.exits import NO_EXECUTORS
from fleet.alerts.alert import Condition, remove_prefix
from fleet.health.degradation import Reason

Domain = events_pb2.ErrorDomain
Error = events_pb2.DaggerError

LATE_RECORDS: Final = "LATE_RECORDS"
"""Code of a driver's warning: rows came late, however few."""
EVENT_TIME_WAITS: Final = "EVENT_TIME_WAITS"
"""Code for event time that waits for a partition, however short a while."""
QUARANTINED: Final = "QUARANTINED"
"""Code for records that were quarantined, however few."""
REFUSED: Final = "REFUSED"
"""Code for rows that sinks refused, however few."""
NOT_LAUNCHED: Final = "NOT_LAUNCHED"
"""Code for a dagger that is to run, where nobody says why no driver is launched."""
WAITS_FOR_TURN: Final = "WAITS_FOR_TURN"
"""Code for a launch that waits because its host starts as many daggers as it has cores."""
UNLAUNCHED: Final = "does a scheduler run, or do many of them start at once?"
"""Question where no driver is launched and no error says why."""
ISOLATED: Final = "ISOLATED"
"""Code for a dagger that has a process of its own because processes that it shared died."""
UNREACHABLE: Final = "UNREACHABLE"
"""Code for a dagger of which neither heartbeat nor process answers."""
_USER, _EXTERNAL, _INTERNAL, _UNKNOWN = (
    events_pb2.ERROR_DOMAIN_USER,
    events_pb2.ERROR_DOMAIN_EXTERNAL,
    events_pb2.ERROR_DOMAIN_INTERNAL,
    events_pb2.ERROR_DOMAIN_UNSPECIFIED,
)


@dataclass(frozen=True, slots=True)
class Advice:
    """Advice about a code."""

    object: str
    """Object of the problem, where the warning or alert names none."""
    domain: Domain.ValueType
    """Domain of who has to act."""
    next: str
    """Next step; `{name}` is the dagger's. A command is a noun in it, which pages name a button for."""

    def next_of(self, name: str) -> str:
        """Return the next step about this dagger, this team, this host …"""
        return self.next.format(name=remove_prefix(name))


ADVICE: Final[Mapping[str, Advice]] = {
    Reason.START_TIMEOUT: Advice(
        "driver", _INTERNAL, "Read `daggers logs {name}`: it says how far the start came."
    ),
    Reason.NO_HEARTBEAT: Advice(
        "driver",
        _EXTERNAL,
        "See whether its host runs and reaches Kafka; if it lasts, use `daggers restart {name}`.",
    ),
    Reason.BATCH_STUCK: Advice("batch", _UNKNOWN, "Read `daggers logs {name}` and its Spark UI."),
    Reason.NO_PROGRESS: Advice(
        "source", _EXTERNAL, "See whether the Kafka of its streams answers; `daggers logs {name}` says more."
    ),
    Reason.SINK_RETRYING: Advice(
        "sink",
        _EXTERNAL,
        "Repair the sink or its secret: the driver goes on by itself. `daggers logs {name}` says more.",
    ),
    Reason.REFERENCE_STALE: Advice(
        "reference table",
        _EXTERNAL,
        "Put the file back as it was (`daggers reference list`): it is read anew at its refresh time.",
    ),
    Reason.LATE_ROWS: Advice(
        "input",
        _USER,
        "Raise its watermark_delay by `daggers apply FILE`, or correct the clock of the producer that"
        " `daggers get {name}` names.",
    ),
    LATE_RECORDS: Advice(
        "input", _USER, "Raise its watermark_delay by `daggers apply FILE`, if rows are to wait longer."
    ),
    Reason.NO_OUTPUT: Advice(
        "windows", _USER, "See which records move event time: `daggers get {name}` says where it stands."
    ),
    Reason.PARTITION_BEHIND: Advice(
        "source",
        _EXTERNAL,
        "See why the producer or mirror of the partition that `daggers get {name}` names is behind, and end a"
        " transaction that hangs in it.",
    ),
    Reason.FRESHNESS_MISSED: Advice(
        "sink",
        _EXTERNAL,
        "See in `daggers get {name}` which sink is late: repair it where it is slow or away, give the driver"
        " more where its lag grows, or let `freshness` be longer than watermark_delay and trigger together.",
    ),
    EVENT_TIME_WAITS: Advice("source", _EXTERNAL, "Nothing yet: its windows end when that partition comes."),
    Reason.QUARANTINE_FLOOD: Advice(
        "quarantine", _EXTERNAL, "Read `daggers quarantine list {name}`: it shows some, and why."
    ),
    QUARANTINED: Advice(
        "quarantine", _EXTERNAL, "Read `daggers quarantine list {name}`: it shows each, and why."
    ),
    REFUSED: Advice("quarantine", _USER, "Read `daggers quarantine list {name}`: it shows each, and why."),
    Reason.HOST_OVERLOADED: Advice(
        "host",
        _EXTERNAL,
        "Give its host more processors or memory, or fewer daggers (`daggers list`): it goes on by itself.",
    ),
    Reason.RULES_NOT_TAKEN: Advice(
        "rules",
        _INTERNAL,
        "Use `daggers restart {name}`: a driver of an older version judges no rules; `daggers logs {name}`"
        " says whether it refused them.",
    ),
    Reason.WAITING_FOR_EXECUTORS: Advice(
        "cluster",
        _EXTERNAL,
        "It begins by itself once a dagger that has cores stops or takes fewer (`executors`), or a worker"
        " comes. `daggers get {name}` says who has them.",
    ),
    "STREAM_UNREACHABLE": Advice(
        "source",
        _EXTERNAL,
        "Bring its Kafka back: the driver goes on where it was, nothing is lost. `daggers get {name}` tells.",
    ),
    Reason.RECORDS_EXPIRED: Advice(
        "source",
        _EXTERNAL,
        "Those records are gone: keep topics longer, or let it read faster; `daggers get {name}` says which"
        " event times are left out.",
    ),
    "TOPIC_JOINED": Advice("source", _USER, "There is nothing to do."),
    "TOPIC_GONE": Advice(
        "source", _EXTERNAL, "Register its stream without that topic, unless it is to be made anew."
    ),
    anew.BEGUN: Advice(
        "checkpoint",
        _EXTERNAL,
        "Find out what took its checkpoint: `daggers logs {name}` says when it began anew.",
    ),
    "LARGE_GROUPS": Advice(
        "state", _USER, "Collect fewer values in each group: a shorter window, or a finer GROUP BY."
    ),
    UNREACHABLE: Advice(
        "driver",
        _EXTERNAL,
        "Bring its host, which `daggers get {name}` names, or its network back: nothing is launched in its"
        " place until it is proven gone, or an administrator says so by `daggers host confirm-gone`.",
    ),
    NOT_LAUNCHED: Advice(
        "launch", _INTERNAL, "See whether a scheduler runs; `daggers events {name}` says what was done last."
    ),
    WAITS_FOR_TURN: Advice(
        "launch",
        _EXTERNAL,
        "Nothing yet: it starts by itself, and first with `priority: critical` in its file.",
    ),
    ISOLATED: Advice(
        "driver",
        _UNKNOWN,
        "Read `daggers events {name}`: it says what it was doing then. Once it is edited it shares again.",
    ),
    "FAILED": Advice("driver", _UNKNOWN, "Read `daggers get {name}`: it names the error, and whose it is."),
    "RESTART_LOOP": Advice("driver", _UNKNOWN, "It is launched again by itself; read `daggers logs {name}`."),
    "NO_INPUT": Advice(
        "input",
        _EXTERNAL,
        "See whether its producers run, and write to the topics that `daggers stream list` shows.",
    ),
    "LAG_GROWING": Advice(
        "driver",
        _USER,
        "Give it more processors or a cheaper query; `daggers logs {name}` says how long a batch takes, and"
        " in what.",
    ),
    "RULE": Advice(
        "rule",
        _USER,
        "Read its runbook, if it names one; `daggers get {name}` shows the rule and its rows.",
    ),
    "KAFKA_AWAY": Advice(
        "Kafka",
        _EXTERNAL,
        "Bring its brokers back, everything else goes on by itself; `daggers log verify --kafka HOST:PORT`"
        " asks them.",
    ),
    "HOST_AWAY": Advice(
        "host",
        _EXTERNAL,
        "Look whether the machine runs and reaches Kafka; `daggers host show {name}` says what runs there,"
        " and `daggers host confirm-gone {name}` moves it where the machine is gone for good.",
    ),
    "SPARK_AWAY": Advice(
        "cluster",
        _EXTERNAL,
        "Look whether the Spark master of {name} runs, has workers, and is reached from the drivers' hosts:"
        " daggers go on by themselves then, and `daggers alerts list` says which wait for it.",
    ),
    "STORE_AWAY": Advice(
        "store",
        _EXTERNAL,
        "Look whether {name} runs, has room, and is reached from the drivers' hosts: daggers go on by"
        " themselves then, without losing a row, and `daggers alerts list` says which wait for it.",
    ),
    "TEAM_QUOTA": Advice("team", _USER, "Read `daggers team usage {name}`: it says what each dagger takes."),
    "REFUSALS": Advice(
        "principal",
        _USER,
        "Read `daggers audit --principal {name}`: it says what was tried; `daggers account revoke` ends an"
        " account.",
    ),
}
"""Advice by code: every reason, the conditions of alerts, and the warnings that ask for something."""
OF_THE_QUERY: Final = Advice(
    "query", _USER, "It runs all the same: change it, or leave it; `daggers validate FILE` shows the place."
)
"""Advice about findings of the query's validation: those codes are the dialect's."""
UNKNOWN_CODE: Final = Advice("", _UNKNOWN, "")
_UNKNOWN_CONDITION: Final = Advice("", _UNKNOWN, "Read `daggers get {name}`: it says what it does now.")
_OF_CONDITIONS: Final[Mapping[Condition, str]] = {
    alerts_pb2.ALERT_CONDITION_QUARANTINE_RATE: QUARANTINED,
    alerts_pb2.ALERT_CONDITION_SINK_BEHIND: Reason.SINK_RETRYING,
}
"""Codes of the conditions whose name is not their code."""
_ANEW: Final = (
    "Put the checkpoint back, then use `daggers start {name}`; or begin anew:"
    " `daggers restart {name} --from-start` says first what is missed."
)
_OF_ERRORS: Final[Mapping[str, str]] = {
    anew.ROOT_MISSING: "Mount the disk of the checkpoints again: then it goes on by itself.",
    anew.GONE: _ANEW,
    anew.DAMAGED: _ANEW,
    NO_EXECUTORS: "See what the pages of its Spark master say of cores and memory: it goes on by itself.",
}
"""Next steps by the reason of an error, for errors that tell what to do."""
_WHEN_FAILED: Final[Mapping[int, str]] = {
    _USER: "Correct the query or the file by `daggers apply FILE`.",
    _EXTERNAL: "Repair what it names, then use `daggers start {name}`.",
    _INTERNAL: "Read `daggers logs {name}`, and report it; `daggers start {name}` tries again.",
}


def advise_condition(condition: Condition) -> Advice:
    """Return the advice about an alert by its condition alone; also of one that only newer versions know."""
    try:
        name = alerts_pb2.AlertCondition.Name(condition).removeprefix("ALERT_CONDITION_")
    except ValueError:
        return _UNKNOWN_CONDITION
    return ADVICE.get(_OF_CONDITIONS.get(condition, name), _UNKNOWN_CONDITION)


# ---- By an error: it says whose it is ----------------------------------------------------------------------


def advise_failed(error: Error, good_version: int = 0) -> Advice:
    """Return the advice about a dagger that is FAILED. good_version: as in `rollback_hint`."""
    next_ = _OF_ERRORS.get(error.reason) or _WHEN_FAILED.get(error.domain, _WHEN_FAILED[_INTERNAL])
    return Advice("driver", error.domain, next_ + rollback_hint(good_version))


def advise_waiting(error: Error) -> Advice:
    """Return the advice about a dagger that waits to be launched."""
    return Advice(
        "launch",
        error.domain,
        "It is launched as soon as that is so; `daggers events {name}` says what was tried.",
    )


def advise_ended(error: Error, good_version: int = 0) -> Advice:
    """Return the advice about a driver that ended, and is launched again. good_version: as in
    `rollback_hint`.
    """
    loop = ADVICE["RESTART_LOOP"]
    return Advice(
        loop.object, error.domain, _OF_ERRORS.get(error.reason) or loop.next + rollback_hint(good_version)
    )


def rollback_hint(good_version: int) -> str:
    """Return the sentence about a version which ran, unlike the newest; empty for 0."""
    return f" `daggers rollback {{name}} --to {good_version}` goes back to what ran." if good_version else ""


def advise_running_again(error: Error) -> Advice:
    """Return the advice about a driver that runs again after the one before it ended."""
    next_ = "If it ends again, read `daggers logs {name} --previous`."
    return Advice(ADVICE["RESTART_LOOP"].object, error.domain, next_)


def advise_retrying(error: Error) -> Advice:
    """Return the advice about a sink that is retried."""
    sink, _, _ = error.detail.partition(": ")
    return Advice(sink, error.domain, ADVICE[Reason.SINK_RETRYING].next)


def advise_team(team: str) -> Advice:
    """Return the advice about a quota of a team."""
    quota = ADVICE["TEAM_QUOTA"]
    return replace(quota, next=quota.next_of(team))


# ---- Words that both tell ----------------------------------------------------------------------------------


def describe_ends(ends: int) -> str:
    """Describe how often a driver has ended."""
    return f"its driver has ended {({1: 'once', 2: 'twice'}).get(ends, f'{ends} times')}"
