from __future__ import annotations

from pathlib import Path

import pytest

from chassis.settings import load
from daggerspec.limits import DEFAULT_DRIVER_MEMORY_MIB, DRIVER_OVERHEAD_MIB
from daggerspec.places import Place
from scheduler.drivers.secret_places import SecretRule
from scheduler.settings import SchedulerSettings


def test_help_tells_the_overhead_that_is_counted() -> None:
    said = SchedulerSettings.model_fields["memory_mib"].description

    words = " ".join((said or "").split())
    assert f"the heap of each ({DEFAULT_DRIVER_MEMORY_MIB} MiB unless its dagger says another)" in words
    assert f"and {DRIVER_OVERHEAD_MIB} MiB." in words


def test_what_no_file_of_ours_sets_an_operator_can_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificate, key, tokens = (tmp_path / name for name in ("host.pem", "host.key", "tokens"))
    for file in (certificate, key, tokens):
        file.touch()
    told = {
        "DAGGERS_SCHEDULER_KAFKA_BOOTSTRAP_SERVERS": "k:1",
        "DAGGERS_SCHEDULER_STATE_DIR": str(tmp_path),
        "DAGGERS_SCHEDULER_MEMORY_MIB": "9000",
        "DAGGERS_SCHEDULER_PREVIEWS": "false",
        "DAGGERS_SCHEDULER_SECRETS": "enforce",
        "DAGGERS_SECRET_PLACES": "/etc/daggers/crm crm http://influx.crm:8086",
        "DAGGERS_SCHEDULER_HOST_BIND": "0.0.0.0:50061",
        "DAGGERS_SCHEDULER_HOST_ADDRESS": "10.0.0.1:99",
        "DAGGERS_SCHEDULER_HOST_TLS_CERT_FILE": str(certificate),
        "DAGGERS_SCHEDULER_HOST_TLS_KEY_FILE": str(key),
        "DAGGERS_HOST_TOKEN_FILE": str(tokens),
    }
    for name, value in told.items():
        monkeypatch.setenv(name, value)

    found = load(SchedulerSettings, [], prog="scheduler")

    assert (found.memory_mib, found.previews, found.reached_at(7, "here")) == (9000, False, "10.0.0.1:99")
    assert (found.host_tls_cert_file, found.host_tls_key_file) == (certificate, key)
    assert found.secret_rule() == SecretRule(
        (Place("/etc/daggers/crm", "crm", ("http://influx.crm:8086",)),), enforced=True
    )
