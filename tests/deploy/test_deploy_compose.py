"""The compose deployment keeps its promises: nobody is root, nothing is open, every setting exists."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml
from daggers.v1 import spec_pb2
from influxdb_client import InfluxDBClient
from influxdb_client.client.write_api import SYNCHRONOUS
from influxdb_client.rest import ApiException
from tests.deploy.compose_file import (
    COMPOSE,
    ROOT,
    SERVICES,
    TEXT,
    load_script,
    read_environment,
    write_secrets,
)

from api_gateway.rpc.health import Health, serving
from api_gateway.settings import GatewaySettings
from chassis.settings import ServiceSettings, variable
from daggerclient import teamfile
from health_monitor.settings import monitor_settings
from portal.settings import PortalSettings
from scheduler.settings import SchedulerSettings
from telemetry.settings import TelemetrySettings

SETTINGS: dict[str, type[ServiceSettings]] = {
    "api-gateway": GatewaySettings,
    "health-monitor": monitor_settings(),
    "portal": PortalSettings,
    "scheduler": SchedulerSettings,
    "telemetry": TelemetrySettings,
}
LASTING = sorted(name for name, service in SERVICES.items() if service["restart"] == "unless-stopped")
every_service = pytest.mark.parametrize("name", sorted(SERVICES))


@every_service
def test_a_service_has_limits_and_no_more_rights_than_it_needs(name: str) -> None:
    service = SERVICES[name]
    ours = service["image"].startswith("${DAGGERS_IMAGE")

    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["mem_limit"]
    assert service["pids_limit"]
    assert ours or not service["user"].startswith(("0", "root"))


@every_service
def test_a_service_is_published_on_loopback_or_not_at_all(name: str) -> None:
    published = SERVICES[name].get("ports", [])

    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("name", LASTING)
def test_a_service_that_lasts_is_asked_for_its_health(name: str) -> None:
    test = SERVICES[name]["healthcheck"]["test"]

    assert test[0] == "CMD"
    assert "healthy.py" not in str(test) or (test[1:3], test[-1] in load_script("healthy").CHECKS) == (
        ["python", "-IS"],
        True,
    )


@pytest.mark.parametrize("name", LASTING)
def test_up_waits_for_no_look_at_a_service_that_is_well(name: str) -> None:
    """An engine looks first when an interval is over: 30 s of them was most of what `up --wait` took."""
    interval = SERVICES[name]["healthcheck"]["interval"]

    assert name in ("grafana", "prometheus") or int(interval.removesuffix("s")) <= 3


def test_a_look_needs_nothing_but_pythons_library() -> None:
    looks = [
        subprocess.run(
            [sys.executable, "-IS", COMPOSE / "image" / "healthy.py", name],
            capture_output=True, text=True, check=False, timeout=60, env={"PATH": os.defpath},
        )
        for name in load_script("healthy").CHECKS
    ]  # fmt: skip

    assert [look.returncode for look in looks] == [1] * len(looks)
    assert [look.stderr for look in looks if "Import" in look.stderr or "Module" in look.stderr] == []


def test_a_service_is_asked_for_its_health_where_it_tells_its_metrics() -> None:
    metrics = {
        name: int(address.rpartition(":")[2])
        for name in load_script("healthy").METRICS
        for variable, address in SERVICES[name]["environment"].items()
        if variable.endswith("_METRICS_BIND")
    }

    assert metrics == load_script("healthy").METRICS


def test_the_gateway_is_asked_for_its_health_where_it_tells_it() -> None:
    told = SERVICES["api-gateway"]["environment"]["DAGGERS_GATEWAY_HEALTH_BIND"]

    assert told == ":".join(map(str, load_script("healthy").HEALTH))


def test_the_health_of_a_gateway_is_asked_for_without_a_library_of_grpc() -> None:
    async def answered() -> list[bool]:
        told = Health(["daggers.v1.DaggerService"])
        async with serving(told, "127.0.0.1:0") as port:
            serves = partial(asyncio.to_thread, load_script("healthy").serves, ("127.0.0.1", port))
            before = await serves()
            told.end()
            return [before, await serves()]

    assert asyncio.run(answered()) == [True, False]


def test_the_command_is_called_in_hints_as_it_is_called_there() -> None:
    assert SERVICES["daggers"]["environment"]["DAGGERS_COMMAND"] == "docker compose run --rm daggers"


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_a_service_is_given_all_it_must_be_told_and_nothing_it_does_not_know(name: str) -> None:
    kind = SETTINGS[name]
    given = set(SERVICES[name]["environment"])
    known = {variable(kind, field) for field in kind.model_fields}
    required = {variable(kind, field) for field, info in kind.model_fields.items() if info.is_required()}

    assert given <= known
    assert required <= given


@pytest.mark.parametrize("name", sorted(set(SETTINGS) - {"portal"}))
def test_a_service_logs_in_to_the_platforms_kafka(name: str) -> None:
    of = {key.partition("_KAFKA_")[2]: value for key, value in SERVICES[name]["environment"].items()}
    file = of["SASL_PASSWORD_FILE"]
    volumes = [volume.split(":")[1] for volume in SERVICES[name]["volumes"]]

    assert of["BOOTSTRAP_SERVERS"] == listeners()["PLATFORM"]
    assert (of["SECURITY_PROTOCOL"], of["SASL_USERNAME"]) == ("SASL_PLAINTEXT", "daggers")
    assert str(Path(file).parent) in volumes


def test_daggers_read_and_write_where_nobody_logs_in_and_nothing_of_the_platform_is() -> None:
    properties = server_properties()
    kinds = dict(pair.split(":") for pair in properties["listener.security.protocol.map"].split(","))

    assert load_script("register").CLUSTER.kafka.bootstrap_servers == listeners()["DATA"]
    assert {name for name, kind in kinds.items() if kind == "PLAINTEXT"} == {"DATA", "HOST"}
    assert "StandardAuthorizer" in properties["authorizer.class.name"]
    assert properties["super.users"] == "User:daggers"
    assert "allow.everyone.if.no.acl.found" not in properties
    assert "CONTROLLER://127.0.0.1:9093" in properties["listeners"].split(",")


def test_spark_takes_nothing_from_who_does_not_know_its_secret() -> None:
    opts = dict(
        option[2:].split("=")
        for option in SERVICES["spark-master"]["environment"]["SPARK_MASTER_OPTS"].split()
    )
    script = (COMPOSE / "image" / "spark.sh").read_text()
    properties = "/run/daggers/spark/properties"
    everything = yaml.safe_dump(
        [[service.get("environment"), service.get("command")] for service in SERVICES.values()]
    )

    assert opts["spark.master.rest.enabled"] == "false"
    assert opts["spark.ui.killEnabled"] == "false"
    assert opts["spark.master.ui.decommission.allow.mode"] == "DENY"
    assert f"--properties-file {properties} " in script
    assert SERVICES["scheduler"]["environment"]["DAGGERS_SCHEDULER_SPARK_PROPERTIES_FILE"] == properties
    assert "spark.authenticate" not in everything
    for name in ("spark-master", "spark-worker", "scheduler"):
        assert "spark-secrets:/run/daggers/spark:ro" in SERVICES[name]["volumes"]


def test_a_master_that_is_started_anew_knows_its_applications() -> None:
    opts = dict(
        option[2:].split("=")
        for option in SERVICES["spark-master"]["environment"]["SPARK_MASTER_OPTS"].split()
    )
    lasting = [
        volume.split(":")[1] for volume in SERVICES["spark-master"]["volumes"] if not volume.endswith(":ro")
    ]

    assert opts["spark.deploy.recoveryMode"] == "FILESYSTEM"
    assert any(opts["spark.deploy.recoveryDirectory"].startswith(f"{folder}/") for folder in lasting)
    assert float(opts["spark.deploy.recoveryTimeout"]) <= 10


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_every_setting_of_a_service_can_be_given(name: str) -> None:
    """In a file of its own; by a variable of .env; or it is what the containers agree on among themselves."""
    agreed = re.compile(r"/[\w./{}-]+|[\w.-]+:\d+|https?://[\w-]+:\d+|sqlite:[\w./]+|daggers|[A-Z_]+")
    files = [{"path": f"settings/{each}.env", "required": False} for each in ("all", name)]
    fixed = {key: value for key, value in SERVICES[name]["environment"].items() if "${" not in str(value)}

    assert SERVICES[name]["env_file"] == files
    assert {key: value for key, value in fixed.items() if not agreed.fullmatch(value)} == {}


@pytest.mark.parametrize("name", ["daggers", "spark-worker", *sorted(SETTINGS)])
def test_what_calls_others_trusts_whom_the_operator_trusts(name: str) -> None:
    entrypoint = SERVICES[name].get("entrypoint", [])

    assert "./secrets/authorities:/etc/daggers/authorities:ro" in SERVICES[name]["volumes"]
    assert not entrypoint or "/usr/local/lib/daggers/trust.sh" in entrypoint


def test_what_an_operator_writes_down_is_kept_out_of_git() -> None:
    written = [".env", "settings/all.env", "settings/scheduler.env", "secrets/authorities/own.pem"]
    done = subprocess.run(
        ["git", "check-ignore", *written],
        cwd=COMPOSE,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert done.stdout.split() == written


def test_who_is_told_of_the_file_of_a_deployment_is_told_of_its_settings_too() -> None:
    """By COMPOSE_FILE alone, the .env of whatever directory one is in would come first."""
    exports = [
        line
        for page in (ROOT / "docs").glob("*.md")
        for line in page.read_text().splitlines()
        if "export COMPOSE_FILE=" in line
    ]

    assert exports
    assert [line for line in exports if "COMPOSE_ENV_FILES=$PWD/deploy/compose/.env" not in line] == []


@pytest.mark.parametrize("name", sorted(SETTINGS))
def test_what_a_service_keeps_outlives_its_container(name: str) -> None:
    kept = [
        path for variable, path in SERVICES[name]["environment"].items() if variable.endswith("_STATE_DIR")
    ]
    named = set(yaml.safe_load(TEXT)["volumes"])
    volumes = [each.split(":") for each in SERVICES[name]["volumes"]]
    lasting = [target for source, target, *mode in volumes if source in named and "ro" not in mode]

    assert bool(kept) == ("state_dir" in SETTINGS[name].model_fields)
    assert [path for path in kept if path not in lasting] == []


def test_the_monitor_starts_with_nobody_to_tell_and_tells_whom_an_operator_names(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    url, slack = tmp_path / "watchdog", tmp_path / "slack"
    url.write_text("https://hc.example/ping/key\n")
    slack.write_text("https://hooks.slack.example/services/T0\n")
    operators = {
        "DAGGERS_MONITOR_WATCHDOG_URL_FILE": str(url),
        "DAGGERS_MONITOR_SLACK_URL_FILE": str(slack),
        "DAGGERS_MONITOR_PORTAL_URL": "https://daggers.example",
        "DAGGERS_MONITOR_RUNBOOK_URL": "https://wiki.example/daggers",
        "DAGGERS_ALLOWED_HOSTS": "10.0.0.7:443",
    }
    kind = monitor_settings()
    read = []
    for said in ({}, operators):
        with monkeypatch.context() as patched:
            for variable, value in read_environment("health-monitor", **said).items():
                patched.setenv(variable, value)
            patched.setenv("DAGGERS_MONITOR_KAFKA_SASL_PASSWORD_FILE", str(url))
            read.append(kind())
    alone, told = read

    assert (alone.watchdog(), alone.channels(), alone.portal_url) == (None, [], "")
    assert (watchdog := told.watchdog()) is not None
    assert watchdog.get_secret_value() == "https://hc.example/ping/key"
    assert [channel.name for channel in told.channels()] == ["slack"]
    assert (told.portal_url, told.allowed_hosts) == ("https://daggers.example", "10.0.0.7:443")
    assert (alone.runbook_url, told.runbook_url) == ("", "https://wiki.example/daggers")
    assert alone.state_dir == told.state_dir == Path("/var/lib/daggers")


def test_prometheus_asks_each_service_where_it_answers_and_goes_by_rules_that_are_there() -> None:
    config = yaml.safe_load((ROOT / "deploy" / "prometheus" / "scrape.yaml").read_text())
    asked = {
        job["job_name"]: [target for static in job["static_configs"] for target in static["targets"]]
        for job in config["scrape_configs"]
    }
    answering = {
        name: [f"{name}:{address.rpartition(':')[2]}"]
        for name in SETTINGS
        for variable, address in SERVICES[name]["environment"].items()
        if variable.endswith("_METRICS_BIND")
    }
    able = {name for name, kind in SETTINGS.items() if "metrics_bind" in kind.model_fields}

    assert asked == answering
    assert asked.keys() == able
    assert [
        file for file in config["rule_files"] if not (ROOT / "deploy" / "prometheus" / file).is_file()
    ] == []


def test_our_image_is_run_by_a_user_who_is_not_root() -> None:
    last = [line for line in (COMPOSE / "Dockerfile").read_text().splitlines() if line.startswith("USER")][-1]

    assert last == "USER 10001:10001"


def test_every_file_that_is_mounted_or_run_is_there() -> None:
    mounted = re.findall(r"- (\.\.?/[\w./-]+):", TEXT)
    run = re.findall(r"/usr/local/lib/daggers/([\w.]+)", TEXT)

    assert [path for path in mounted if not (COMPOSE / path).exists()] == []
    assert [name for name in run if not (COMPOSE / "image" / name).is_file()] == []


def test_every_variable_an_operator_may_set_is_in_the_documentation() -> None:
    variables = set(re.findall(r"\$\{(\w+)", TEXT)) - {"PWD"}
    told = (ROOT / "docs" / "operations.md").read_text()

    assert sorted(name for name in variables if f"`{name}`" not in told) == []


def access(root: Path, **said: str) -> str:
    """What the gateway of a deployment is told of access."""
    (folder := root / "bin").mkdir(exist_ok=True)
    (python := folder / "python").write_text('#!/bin/sh\necho "$DAGGERS_GATEWAY_ACCESS $*"\n')
    python.chmod(0o755)
    environment = {"PATH": f"{folder}:{os.defpath}", **read_environment("api-gateway", **said)}
    script = COMPOSE / "image" / "gateway.sh"
    done = subprocess.run(
        ["sh", script, root], check=True, capture_output=True, text=True, timeout=60, env=environment
    )
    return done.stdout.strip()


def egress(root: Path, **said: str) -> str:
    """What the scheduler of a deployment is told of where drivers may connect."""
    (folder := root / "image").mkdir(exist_ok=True)
    (keep := folder / "keep.sh").write_text('#!/bin/sh\necho "$DAGGERS_SCHEDULER_EGRESS $*"\n')
    keep.chmod(0o755)
    script = Path(shutil.copy(COMPOSE / "image" / "scheduler.sh", folder))
    environment = {"PATH": os.defpath, **read_environment("scheduler", **said)}
    done = subprocess.run(
        ["sh", script, root], check=True, capture_output=True, text=True, timeout=60, env=environment
    )
    return done.stdout.strip()


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_drivers_are_held_to_addresses_wherever_access_is_enforced(tmp_path: Path) -> None:
    (new := tmp_path / "new").mkdir()
    (old := tmp_path / "old" / "gateway").mkdir(parents=True)
    (old / "tokens").write_text("operator:a-token-of-long-ago\n")
    for root in (new, old.parent):
        write_secrets(root)

    assert egress(new) == "enforce python -m scheduler"
    assert egress(new, DAGGERS_ACCESS="observe") == "observe python -m scheduler"
    assert egress(new, DAGGERS_EGRESS="observe") == "observe python -m scheduler"
    assert egress(old.parent) == "observe python -m scheduler"
    assert egress(old.parent, DAGGERS_ACCESS="enforce") == "enforce python -m scheduler"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_new_deployment_enforces_and_its_secrets_stay_what_they_are(tmp_path: Path) -> None:
    first, second = write_secrets(tmp_path), write_secrets(tmp_path)

    assert first == second
    assert first["portal/gateway-ca.pem"] == first["client/ca.pem"] != first["portal/ca.pem"]
    assert first["gateway/tokens"] == f"operator:{first['client/token']}"
    assert re.fullmatch(r"[0-9a-f]{48}\n", first["kafka/password"])
    assert re.fullmatch(
        r"spark\.authenticate true\nspark\.authenticate\.secret [0-9a-f]{48}\n", first["spark/properties"]
    )
    assert access(tmp_path) == "enforce -m api_gateway"
    assert access(tmp_path, DAGGERS_ACCESS="observe") == "observe -m api_gateway"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_deployment_from_before_there_were_roles_observes_until_somebody_enforces(tmp_path: Path) -> None:
    (tmp_path / "gateway").mkdir()
    (tmp_path / "gateway" / "tokens").write_text("operator:a-token-of-long-ago\n")
    files = write_secrets(tmp_path)

    assert "gateway/access" not in files
    assert access(tmp_path) == "observe -m api_gateway"
    assert access(tmp_path, DAGGERS_ACCESS="enforce") == "enforce -m api_gateway"


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_portal_serves_by_what_it_is_given_and_is_told_healthy(tmp_path: Path) -> None:
    """As in its container, but for the places of files and its port."""
    write_secrets(tmp_path)
    provider = {"DAGGERS_OIDC_ISSUER": "https://login.example.com", "DAGGERS_OIDC_AUDIENCE": "daggers"}
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        **{
            name: value.replace("/run/daggers", str(tmp_path))
            for name, value in read_environment("portal", **provider).items()
        },
        "DAGGERS_PORTAL_STATE_DIR": str(tmp_path / "state"),
        "DAGGERS_PORTAL_BIND": f"127.0.0.1:{port}",
        "DAGGERS_PORTAL_METRICS_BIND": "127.0.0.1:0",
        "PATH": os.defpath,
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "portal"], env=environment, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stderr is not None
        assert any('"service.started"' in line for line in process.stderr)
        check = [sys.executable, COMPOSE / "image" / "healthy.py", "portal"]
        well = subprocess.run(check, env=environment, capture_output=True, text=True, check=False, timeout=60)
        other = environment | {"DAGGERS_PORTAL_PUBLIC_URL": "https://another.example"}
        ill = subprocess.run(check, env=other, capture_output=True, text=True, check=False, timeout=60)
    finally:
        process.terminate()
        process.communicate(timeout=60)

    assert (well.returncode, well.stderr) == (0, "")
    assert ill.returncode == 1
    assert "421" in ill.stderr
    assert process.returncode == 0


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_a_portal_without_a_provider_says_so_where_one_looks(tmp_path: Path) -> None:
    write_secrets(tmp_path)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    environment = {
        name: value.replace("/run/daggers", str(tmp_path))
        for name, value in read_environment("portal").items()
    } | {"DAGGERS_PORTAL_BIND": f"127.0.0.1:{port}", "PATH": f"{Path(sys.executable).parent}:{os.defpath}"}
    script = (COMPOSE / "image" / "portal.sh").read_text()
    script = script.replace("/usr/local/lib/daggers", str(COMPOSE / "image"))
    process = subprocess.Popen(["sh", "-c", script], env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        logged = process.stderr.readline()
        trusting = ssl.create_default_context(cafile=tmp_path / "portal" / "ca.pem")
        with pytest.raises(HTTPError) as shown:
            urlopen(f"https://localhost:{port}/daggers", timeout=30, context=trusting)
        check = [sys.executable, "-IS", COMPOSE / "image" / "healthy.py", "portal"]
        ill = subprocess.run(check, env=environment, capture_output=True, text=True, check=False, timeout=60)
    finally:
        process.terminate()
        process.communicate(timeout=60)

    assert "set DAGGERS_OIDC_ISSUER and DAGGERS_OIDC_AUDIENCE in .env" in logged
    assert (shown.value.code, shown.value.read().decode()) == (503, logged)
    assert (ill.returncode, logged.strip() in ill.stderr) == (1, True)
    assert process.returncode == 0


def test_the_example_of_a_provider_is_one_that_the_gateway_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = (COMPOSE / "oidc.env").read_text().splitlines()
    said = dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
    for name, value in read_environment("api-gateway", **said).items():
        if "_OIDC_" in name:
            monkeypatch.setenv(name, value)
    monkeypatch.setenv("DAGGERS_GATEWAY_KAFKA_BOOTSTRAP_SERVERS", "kafka:9092")
    provider = GatewaySettings().provider

    assert provider is not None
    assert (provider.issuer, provider.name_claim) == (said["DAGGERS_OIDC_ISSUER"], "email")
    assert [provider.audience, *provider.others] == [client["client_id"] for client in registered()]
    assert read_environment("portal", **said)["DAGGERS_PORTAL_OIDC_CLIENT_ID"] == provider.others[0]


def test_a_deployment_that_has_one_client_goes_on_with_it() -> None:
    assert read_environment("portal", DAGGERS_OIDC_AUDIENCE="one")["DAGGERS_PORTAL_OIDC_CLIENT_ID"] == "one"


def registered() -> list[dict[str, Any]]:
    """The clients of the example, the command's first."""
    clients: list[dict[str, Any]] = json.loads((COMPOSE / "oidc-clients.json").read_text())
    return clients


def test_the_pages_are_registered_with_the_address_that_they_have() -> None:
    _, pages = registered()
    url = read_environment("portal")["DAGGERS_PORTAL_PUBLIC_URL"]

    assert pages["redirect_uris"] == [f"{url}/auth/callback"]


def test_the_teams_that_are_registered_are_two_and_named_as_their_files() -> None:
    files = sorted((COMPOSE / "teams").glob("*.yaml"))
    teams = [teamfile.parse(file.read_text(), str(file)) for file in files]

    assert [team.name for team in teams] == [file.stem for file in files] == ["pricing", "supply"]
    assert all(team.members for team in teams)


@pytest.mark.skipif(
    shutil.which("docker") is None
    or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0,
    reason="docker compose is not installed",
)
def test_docker_compose_accepts_the_file() -> None:
    done = subprocess.run(
        ["docker", "compose", "-f", COMPOSE / "compose.yaml", "--profile", "*", "config", "--quiet"],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(
    shutil.which("docker") is None
    or subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode != 0,
    reason="docker compose is not installed",
)
def test_a_call_from_elsewhere_means_the_same_deployment(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text("DAGGERS_MAX_DRIVERS=99\n")
    (own := tmp_path / "own.env").write_text("DAGGERS_MAX_DRIVERS=7\n")
    told = {"COMPOSE_FILE": str(COMPOSE / "compose.yaml"), "COMPOSE_ENV_FILES": str(own)}
    environment = os.environ | told  # noqa: TID251 - handed on
    done = [
        subprocess.run(
            ["docker", "compose", "config", "--format", "json"],
            cwd=place, env=environment, check=True, capture_output=True, text=True, timeout=60,
        ).stdout
        for place in (tmp_path, COMPOSE)
    ]  # fmt: skip
    services = [json.loads(each)["services"] for each in done]

    assert [each["scheduler"]["environment"]["DAGGERS_SCHEDULER_MAX_DRIVERS"] for each in services] == [
        "7"
    ] * 2
    assert services[0] == services[1]


def test_a_team_has_a_bucket_and_a_token_that_opens_no_other(influx2: dict[str, str], tmp_path: Path) -> None:
    address = spec_pb2.InfluxAddress(url=influx2["url"], org=influx2["org"], bucket=influx2["bucket"])
    address.token.file = str(tmp_path / "token")
    (tmp_path / "token").write_text(influx2["token"])
    for _ in range(2):  # again is no harm
        load_script("register").make_bucket(address, "pricing", tmp_path / "pricing.token")
    token = (tmp_path / "pricing.token").read_text()
    with InfluxDBClient(address.url, token, org=address.org) as influx:
        influx.write_api(SYNCHRONOUS).write("pricing", record="fares value=1")
        with pytest.raises(ApiException) as refused:
            influx.write_api(SYNCHRONOUS).write(address.bucket, record="fares value=1")

    assert refused.value.status in (401, 403, 404)


def server_properties() -> dict[str, str]:
    """The properties of Kafka, by name."""
    lines = (COMPOSE / "kafka" / "server.properties").read_text().splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def listeners() -> dict[str, str]:
    """Where Kafka says that it listens, by the listener."""
    text = (COMPOSE / "kafka" / "start.sh").read_text()
    advertised = re.search(r"advertised\.listeners=([^\"]+)", text)
    assert advertised is not None
    return dict(pair.split("://") for pair in advertised[1].split(","))
