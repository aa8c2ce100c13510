"""`daggers sink test`, by a host behind a gateway."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any, ClassVar

import pytest
from cli.tests import cli_sample as sampling
from daggers.v1 import gateway_pb2, host_pb2

SinkStep = gateway_pb2.SinkStep
SINK = 'kind: sink\nname: crm\nteams: [crm]\nhttp: {url: "https://crm.example"}\n'


class Host(sampling.Host):
    """A host that reaches every sink, and is let in by none that is registered."""

    asked: ClassVar[list[host_pb2.TestHostSinkRequest]] = []

    async def TestHostSink(  # noqa: N802 - gRPC's name
        self, request: host_pb2.TestHostSinkRequest, context: Any
    ) -> AsyncIterator[gateway_pb2.TestSinkResponse]:
        self.asked.append(request)
        well = SinkStep(sink="crm", what="connect", outcome=SinkStep.OUTCOME_OK, detail="A server listens.")
        yield gateway_pb2.TestSinkResponse(step=well)
        if request.request.sink:
            failed = SinkStep(
                sink="crm", what="ask", outcome=SinkStep.OUTCOME_FAILED, reason="SINK_DENIED", detail="x\x1b"
            )
            yield gateway_pb2.TestSinkResponse(step=failed)


@pytest.fixture(scope="module")
def host() -> Any:
    """Address of a host, in a thread of its own."""
    yield from sampling.served(Host())


gateway = sampling.gateway


@pytest.fixture
def crm(shell: Any) -> Any:
    """A shell whose gateway knows the sink crm."""
    shell.fill()
    assert shell("sink", "apply", shell.file("sink.yaml", SINK))[0] == 0
    return shell


def test_each_step_is_a_line_and_a_step_that_fails_is_the_exit_code(crm: Any) -> None:
    code, out, err = crm("sink", "test", "crm")

    assert code == 1
    assert out.splitlines() == ["✓ crm  connect  A server listens.", "✗ crm  ask      SINK_DENIED: x\\x1b"]
    assert "crm cannot be written to" in err


def test_json_has_a_document_for_each_step(crm: Any) -> None:
    documents = [json.loads(line) for line in crm("sink", "test", "crm", "-o", "json")[1].splitlines()]

    assert [(document["what"], document["outcome"], document["reason"]) for document in documents] == [
        ("connect", "ok", ""),
        ("ask", "failed", "SINK_DENIED"),
    ]


def test_the_sinks_of_a_file_are_tried_with_a_row_where_that_is_asked_for(crm: Any, dagger_file: str) -> None:
    code = crm("sink", "test", "-f", crm.file("d.yaml", dagger_file), "--send-one")[0]

    asked = Host.asked[-1].request
    assert (code, asked.send_one, asked.sink, len(asked.spec.sinks)) == (0, True, "", 1)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "NAME or --file FILE: name one of them"),
        (["crm", "--send-one"], "--send-one goes with --file FILE"),
    ],
)
def test_what_does_not_go_together_is_said(crm: Any, words: list[str], said: str) -> None:
    code, _, err = crm("sink", "test", *words)

    assert (code, said in err) == (2, True)
