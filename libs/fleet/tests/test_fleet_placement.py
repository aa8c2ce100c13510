"""On which host a dagger is launched."""

from __future__ import annotations

from dataclasses import replace

from daggers.v1 import events_pb2, spec_pb2

from daggerspec.limits import DRIVER_OVERHEAD_MIB
from eventlog.testing import START
from fleet import Dagger, Fleet
from fleet.decide.placement import AGENT_TOO_OLD, HOST_LACKS, NO_HOST, Candidate, choose_host
from fleet.decide.requirements import READER, USERS, find_files, format_file, format_master, format_user
from fleet.fold.catalogue import Entry
from fleet.fold.dagger import create_dagger
from fleet.fold.hosts import AGENT, Standing
from fleet.fold.phases import RUNNING
from fleet.fold.quotas import Full, Room

NEED = 1000 + DRIVER_OVERHEAD_MIB


def dagger(name: str, host: str = "", **more: object) -> Dagger:
    spec = spec_pb2.DaggerSpec(cluster="c", driver_memory_mib=1000)
    new_one = create_dagger(events_pb2.DaggerRequested(name=name, spec=spec), 1, START)
    if host:
        new_one = new_one.but(
            driver=events_pb2.DriverHandle(host=host), host=host, phase=RUNNING, generation=1
        )
    return new_one.but(**more)


def choose(*running: Dagger, of: Dagger | None = None, **rooms: int) -> str | Full:
    """Return where a new dagger goes, when these run and hosts have room for so many."""
    fleet, new = Fleet(), of or dagger("new")
    for one in running:
        fleet.put(one)
    candidates = [Candidate(host=host, room=Room(memory_mib=fits * NEED)) for host, fits in rooms.items()]
    return choose_host(fleet, new, candidates)


def test_the_leaders_host_is_taken_while_it_has_room_and_then_the_one_with_the_most_left() -> None:
    assert choose(own=2, other=9) == "own"
    assert choose(dagger("a", "own"), own=2, other=9) == "own"
    assert choose(dagger("a", "own"), own=1, other=2, third=3) == "third"
    assert choose(dagger("a", "own"), dagger("b", "third"), own=1, other=2, third=2) == "other"


def test_a_host_without_room_is_passed_over_and_without_any_the_leaders_says_why() -> None:
    full = choose(dagger("a", "own"), dagger("b", "other"), own=1, other=1)

    assert choose(dagger("a", "own"), own=1, other=1) == "other"
    assert isinstance(full, Full)
    assert full.reason == "MAX_MEMORY"


def test_a_dagger_runs_again_where_it_ran_if_there_is_room() -> None:
    ran = dagger("new", ran_on="other")

    assert choose(of=ran, own=3, other=1) == "other"
    assert choose(dagger("a", "other"), of=ran, own=3, other=1) == "own"


def test_a_host_whose_agent_was_too_old_is_not_asked_again_at_once() -> None:
    error = events_pb2.DaggerError(reason=AGENT_TOO_OLD)
    refused = dagger("new", host="other", driver=None, last_error=error)

    assert choose(dagger("a", "own"), of=refused, own=1, other=9, third=1) == "third"
    assert (
        choose(dagger("a", "own"), of=replace(refused, last_error=None), own=1, other=9, third=1) == "other"
    )


def test_a_host_that_lacked_a_file_at_the_launch_is_not_asked_again_at_once() -> None:
    error = events_pb2.DaggerError(reason=HOST_LACKS)
    refused = dagger("new", host="other", driver=None, last_error=error)

    assert choose(dagger("a", "own"), of=refused, own=1, other=9, third=1) == "third"


# ---- What a host has ---------------------------------------------------------------------------------------


def wants(name: str = "new", host: str = "", **fields: object) -> Dagger:
    """Make a dagger of team crm whose specification says more."""
    one = dagger(name, host)
    spec = spec_pb2.DaggerSpec(cluster="c", team="crm", driver_memory_mib=1000, **fields)  # type: ignore[arg-type] # its own
    return one.but(spec=spec)


def candidate(host: str, fits: int = 9, **more: object) -> Candidate:
    return Candidate(host=host, room=Room(memory_mib=fits * NEED), **more)  # type: ignore[arg-type] # its own


def place(
    new: Dagger, *candidates: Candidate, running: tuple[Dagger, ...] = (), fleet: Fleet | None = None
) -> str | Full:
    """Return where a dagger goes, when these run and these hosts can launch."""
    fleet = fleet or Fleet()
    for one in running:
        fleet.put(one)
    return choose_host(fleet, new, candidates)


def test_a_dagger_runs_where_the_labels_are_that_it_needs_and_else_says_so() -> None:
    needs, own, other = wants(needs={"zone": "a"}), candidate("own"), candidate("other", labels={"zone": "a"})
    nowhere = place(needs, own, candidate("other", labels={"zone": "b"}))

    assert place(needs, own, other) == "other"
    assert isinstance(nowhere, Full)
    assert (nowhere.reason, nowhere.detail) == (
        NO_HOST,
        "no host can run it: own has no label zone=a; other has no label zone=a",
    )
    assert isinstance(place(needs, own), Full)


def with_file() -> tuple[Fleet, Dagger]:
    """Return a fold with a secret in a file, and a dagger that needs it."""
    fleet = Fleet()
    place = spec_pb2.SecretRef(file="/run/crm-token")
    secret = spec_pb2.Secret(name="crm-token", place=place)
    fleet.catalogue.secrets["crm-token"] = Entry(secret, 1, 1)
    address = spec_pb2.InfluxAddress(token=spec_pb2.SecretRef(name="crm-token"))
    sink = spec_pb2.Sink(influx=spec_pb2.InfluxSink(address=address))
    return fleet, wants(sinks=[sink])


def test_a_dagger_runs_where_its_files_are_and_on_a_single_host_whatever_there_is() -> None:
    fleet, needs = with_file()
    own = candidate("own", lacks=frozenset({format_file("/run/crm-token")}))
    nowhere = place(needs, own, replace(own, host="other"), fleet=fleet)

    assert find_files(fleet, needs.spec) == {"/run/crm-token"}
    assert place(needs, own, candidate("other"), fleet=fleet) == "other"
    assert isinstance(nowhere, Full)
    assert nowhere.detail.endswith("own has no file /run/crm-token; other has no file /run/crm-token")
    assert place(needs, own, fleet=fleet) == "own"


def test_a_dagger_runs_where_the_spark_master_of_its_cluster_is_reached() -> None:
    fleet, master = Fleet(), "spark://m:7077"
    for name, url in (("c", master), ("local", "local[2]")):
        cluster = spec_pb2.Cluster(name=name, spark_master=url)
        fleet.catalogue.clusters[name] = Entry(cluster, 1, 1)
    own = candidate("own", lacks=frozenset({format_master(master)}))
    nowhere = place(wants(), own, replace(own, host="other"), fleet=fleet)
    local = wants().but(spec=spec_pb2.DaggerSpec(cluster="local", driver_memory_mib=1000))

    assert place(wants(), own, candidate("other"), fleet=fleet) == "other"
    assert place(local, own, candidate("other"), fleet=fleet) == "own"
    assert isinstance(nowhere, Full)
    assert nowhere.detail == f"no host can run it: own has no master {master}; other has no master {master}"


def test_a_team_that_has_a_user_on_one_host_runs_on_no_host_without_it() -> None:
    fleet = Fleet()
    registered = events_pb2.HostRegistered(host="other", agent=AGENT)
    fleet.standings["other"] = Standing(epoch=1, registered=registered)
    none = candidate("own", lacks=frozenset({USERS}))
    not_of_crm = candidate("own", lacks=frozenset({format_user("crm")}))

    assert place(wants(), none, candidate("other"), fleet=fleet) == "other"
    assert place(wants(), not_of_crm, candidate("other"), fleet=fleet) == "other"
    registered.lacks.append(USERS)
    assert place(wants(), none, candidate("other", lacks=frozenset({USERS})), fleet=fleet) == "own"


def test_hosts_that_are_busy_or_read_slowly_are_taken_where_no_other_has_room() -> None:
    busy, slow = candidate("own", load=1.2), candidate("own", lacks=frozenset({READER}))

    assert place(wants(), busy, candidate("other", load=0.5)) == "other"
    assert place(wants(), busy, candidate("other", fits=0)) == "own"
    assert place(wants(), slow) == "own"
    assert place(wants(), candidate("own", fits=0), replace(slow, host="x"), candidate("y", fits=1)) == "y"


def test_daggers_of_one_stream_run_together_while_there_is_room() -> None:
    reads = [spec_pb2.StreamInput(stream="bookings")]
    other = wants("a", "other", streams=reads)

    assert place(wants(streams=reads), candidate("own"), candidate("other"), running=(other,)) == "other"
    assert place(wants(streams=reads), candidate("own"), candidate("other", 1), running=(other,)) == "own"
    assert place(wants(), candidate("own"), candidate("other"), running=(other,)) == "own"


def test_critical_daggers_of_a_team_are_spread_and_its_others_are_not() -> None:
    critical, reads = spec_pb2.PRIORITY_CRITICAL, [spec_pb2.StreamInput(stream="bookings")]
    first = wants("a", "own", priority=critical, streams=reads)
    hosts = candidate("own"), candidate("other")
    foreign = first.but(spec=spec_pb2.DaggerSpec(team="hr", priority=critical))

    assert place(wants(priority=critical, streams=reads), *hosts, running=(first,)) == "other"
    assert place(wants(streams=reads), *hosts, running=(first,)) == "own"
    assert place(wants(priority=critical), *hosts, running=(foreign,)) == "own"
