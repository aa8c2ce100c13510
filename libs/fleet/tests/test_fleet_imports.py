import json
import subprocess
import sys

HEAVY = {"aiokafka", "confluent_kafka", "asyncio", "grpc", "sqlglot", "socket", "subprocess", "structlog"}


def test_importing_the_dagger_loads_no_client_no_event_loop_and_no_sql_compiler() -> None:
    script = "import json, sys; import fleet.fold.dagger; print(json.dumps(sorted(sys.modules)))"
    said = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in json.loads(said.stdout)}

    assert loaded & HEAVY == set()
