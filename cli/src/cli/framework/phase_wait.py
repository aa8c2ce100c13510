"""--wait: wait for a dagger's phase, and show the present one meanwhile."""

from collections.abc import Iterator
from contextlib import contextmanager

from daggers.v1 import gateway_pb2

from cli.framework.gateway import Gateway, in_words
from cli.output.progress import Report, Steps
from daggerclient import AcceptedRequest, ClientError, waiting


def until_running(
    gateway: Gateway, written: AcceptedRequest, timeout_s: float, steps: Steps
) -> gateway_pb2.Dagger:
    """Wait until a launch of the written version runs; return the dagger. FAILED ends the wait at once."""
    with _step(steps, written, "RUNNING") as report:
        return waiting.until_running(gateway, written, timeout_s, report)


def until_stopped(
    gateway: Gateway, written: AcceptedRequest, timeout_s: float, steps: Steps
) -> gateway_pb2.Dagger:
    """Wait until no driver of a dagger runs; return the dagger."""
    with _step(steps, written, "STOPPED") as report:
        return waiting.until_stopped(gateway, written, timeout_s, report)


def until_deleted(gateway: Gateway, written: AcceptedRequest, timeout_s: float, steps: Steps) -> None:
    """Wait until a dagger is gone, or another one has its name."""
    with _step(steps, written, "DELETED") as report:
        waiting.until_deleted(gateway, written, timeout_s, report)


@contextmanager
def _step(steps: Steps, written: AcceptedRequest, wanted: str) -> Iterator[Report]:
    with steps.step(f"waiting for {written.dagger.name} to be {wanted}") as report:
        try:
            yield report
        except ClientError as error:
            raise in_words(error) from error
