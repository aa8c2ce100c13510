"""Everything that is wrong is told at once, in the words of who wrote it: flags, keys and lines."""

import json
from typing import Any

import pytest


def findings(out: str) -> list[tuple[str, str]]:
    return [(each["field"], each["code"]) for each in json.loads(out)["error"]["findings"]]


def test_every_missing_flag_is_told_at_once(shell: Any) -> None:
    code, out, _ = shell("stream", "register", "-o", "json")

    assert (code, findings(out)) == (
        2,
        [(name, "MISSING") for name in ("NAME", "--cluster", "--topic", "--message", "--time-field")],
    )


def test_an_inline_secret_is_told_with_what_else_is_wrong_and_is_not_repeated(shell: Any) -> None:
    code, out, err = shell(
        "cluster", "register", "prod", "--kafka", "nonsense", "--kafka-secret", "sasl.password=hunter2",
        "--kafka-property", "group.id=x", "--influx-url", "ftp://x", "-o", "json",
    )  # fmt: skip

    assert (code, json.loads(out)["error"]["reason"], "hunter2" in out + err) == (2, "USAGE", False)
    assert findings(out) == [
        ("--kafka-secret sasl.password", "INLINE_SECRET"),
        ("--kafka", "INVALID_ADDRESS"),
        ("--kafka-property group.id", "FORBIDDEN_PROPERTY"),
        ("--influx-url", "INVALID_URL"),
    ]


def test_what_the_gateway_refuses_of_a_cluster_names_the_flag(shell: Any) -> None:
    code, out, err = shell(
        "cluster", "register", "p", "--spark-master", "mesos://m", "--influx-org", "o", "-o", "json"
    )

    assert (code, findings(out)) == (
        1,
        [("NAME", "INVALID_NAME"), ("--spark-master", "INVALID_ADDRESS"), ("--influx-url", "REQUIRED")],
    )
    assert err.startswith("error: 3 things are wrong\n  NAME: must be 3 to 63 of")
    assert err.count("must be 3 to 63 of") == 1


def test_what_the_gateway_refuses_of_a_stream_names_the_flag(shell: Any) -> None:
    _, out, _ = shell(
        "stream", "register", "s", "--cluster", "none", "--topic", "good", "--topic", "a b",
        "--message", "a.B", "--time-field", "t", "-o", "json",
    )  # fmt: skip

    assert findings(out) == [
        ("NAME", "INVALID_NAME"),
        ("--topic a b", "INVALID_TOPIC"),
        ("--cluster", "UNKNOWN_CLUSTER"),
        ("--message", "UNKNOWN_MESSAGE"),
    ]


@pytest.mark.parametrize(
    ("words", "field"), [(("start", "X"), "NAME"), (("list", "--filter", "bogus"), "--filter")]
)
def test_a_refused_request_names_what_was_written(shell: Any, words: tuple[str, ...], field: str) -> None:
    _, out, _ = shell(*words, "-o", "json")

    assert {name for name, _ in findings(out)} == {field}


def test_what_the_gateway_refuses_of_a_file_names_key_and_line(shell: Any, dagger_file: str) -> None:
    shell.fill()
    text = dagger_file.replace("measurement: orders", "url: ftp://x")
    path = shell.file(
        "d.yaml", text.replace("stream: orders", "{stream: orders, start: 2999-01-01T00:00:00Z}")
    )

    code, out, err = shell("apply", "-f", path, "-o", "json")
    found = [(each["field"], each["line"], each["file"]) for each in json.loads(out)["error"]["findings"]]

    assert (code, found) == (
        1,
        [("streams[0].start", 5, str(path)), ("sinks[0].influx.url", 13, str(path))],
    )
    assert err.startswith(f"error: {path}: 2 things are wrong\n  {path}:5:")
    assert err.count("is in the future") == 1
    assert f"{path}:13:12: sinks[0].influx.url: must be a URL" in err


def test_one_documents_mistake_hides_nothing_of_another(shell: Any, dagger_file: str) -> None:
    shell.fill()
    bad = dagger_file.replace("orders\nsql", "orders\n    start: neevr\nsql")
    late = dagger_file.replace("orders\nsql", "orders\n    start: 2999-01-01T00:00:00Z\nsql")
    file = shell.file("d.yaml", f"{bad}---\n{late.replace('orders_by', 'again_by')}---\n: [")

    _, out, _ = shell("apply", "-f", file, "-o", "json")
    found = [(each["field"], each["code"]) for each in json.loads(out)["error"]["findings"]]

    assert found == [
        ("streams[0].start", "BAD_START"),
        ("", "INVALID_YAML"),
        ("streams[0].start", "OUT_OF_RANGE"),
    ]


def test_a_part_that_is_not_in_the_file_is_placed_where_it_would_stand(shell: Any, dagger_file: str) -> None:
    shell("cluster", "register", "bare", "--kafka", "127.0.0.1:1", "--spark-master", "local[2]")
    shell.fill()

    _, out, _ = shell(
        "apply",
        "-f",
        shell.file("d.yaml", dagger_file.replace("cluster: local", "cluster: bare")),
        "-o",
        "json",
    )

    assert [(each["field"], each["line"]) for each in json.loads(out)["error"]["findings"]] == [
        ("sinks[0].influx.url", 13),
        ("sinks[0].influx.bucket", 13),
    ]


def test_every_file_and_folder_that_is_not_there_is_told(shell: Any) -> None:
    code, out, _ = shell("schema", "register", "a.proto", "b.proto", "-I", "nowhere", "-o", "json")

    assert (code, [name for name, _ in findings(out)]) == (2, ["a.proto", "b.proto", "-I nowhere"])


def test_every_flag_of_the_local_influx_is_judged(shell: Any) -> None:
    code, out, _ = shell(
        "local", "up", "--influx-url", "ftp://x", "--influx-token-file", "none", "-o", "json"
    )

    assert (code, [name for name, _ in findings(out)]) == (
        2,
        ["--influx-url", "--influx-bucket", "--influx-token-file"],
    )


def test_a_cluster_needs_no_kafka(shell: Any) -> None:
    assert shell("cluster", "register", "sparks", "--spark-master", "local[2]")[0] == 0
