"""Records of the control topic in words: every event there is, with its phase, generation and reason."""

import pytest
from daggers.v1 import events_pb2, gateway_pb2
from google.protobuf.message import Message

from cli.output.event_text import words
from fleet.fold.fleet import REPEAT

E = events_pb2
FACT = E.FactMeta(epoch=3, name="x", generation=40)
ASKED = E.RequestMeta(actor="ana")
ERROR = E.DaggerError(domain=E.ERROR_DOMAIN_USER, reason="BAD_SQL", detail="no column a")
EVENTS = sorted(
    name
    for name, message in events_pb2.DESCRIPTOR.message_types_by_name.items()
    if "meta" in message.fields_by_name or name == "SchedulerStarted"
)


def event(message: Message, refused: str = "") -> gateway_pb2.Event:
    found = gateway_pb2.Event(type=message.DESCRIPTOR.full_name, sequence=41, refused=refused)
    found.data.Pack(message)
    return found


@pytest.mark.parametrize(
    ("message", "said"),
    [
        (E.DaggerRequested(meta=E.RequestMeta(actor="ana", expected_version=0)), "created by ana"),
        (E.DaggerRequested(meta=ASKED, warnings=["w"]), "revised by ana, warnings: 1"),
        (E.StopRequested(meta=ASKED, mode=E.STOP_MODE_NOW), "asked to stop at once by ana"),
        (E.LaunchIntended(version=2), "STARTING, generation 41: version 2 is being launched"),
        (E.Launched(meta=FACT, driver=E.DriverHandle(host="h", pid=7, ui_url="http://u")),
         "driver launched, generation 40: on h, pid 7, UI http://u"),
        (E.Running(meta=FACT), "RUNNING, generation 40"),
        (E.Degraded(meta=FACT, reasons=["NO_PROGRESS"]), "DEGRADED, generation 40: NO_PROGRESS"),
        (E.Exited(meta=FACT, code=64, error=ERROR),
         "driver exited with code 64, generation 40: USER BAD_SQL: no column a"),
        (E.Failed(meta=FACT, error=ERROR), "FAILED, generation 40: USER BAD_SQL: no column a"),
    ],
)  # fmt: skip
def test_an_event_says_phase_generation_and_reason(message: Message, said: str) -> None:
    assert words(event(message)) == said


@pytest.mark.parametrize(
    ("version", "expected", "said"),
    [(1, None, "created"), (2, None, "revised"), (1, 0, "created"), (0, 0, "created"), (0, None, "revised")],
)
def test_what_made_a_dagger_is_told_from_what_revised_it(
    version: int, expected: int | None, said: str
) -> None:
    asked = event(E.DaggerRequested(meta=E.RequestMeta(actor="ana", expected_version=expected)))
    asked.version = version

    assert words(asked) == f"{said} by ana"


@pytest.mark.parametrize("name", EVENTS)
def test_every_event_has_words_even_with_nothing_in_it(name: str) -> None:
    kind = getattr(E, name)
    said = words(event(kind(meta={})) if "meta" in kind.DESCRIPTOR.fields_by_name else event(kind()))

    assert said not in ("", name)


def test_what_a_scheduler_wrote_twice_is_not_called_refused() -> None:
    """It appends again what it was not told of: the fold takes an id once."""
    twice = words(event(E.Running(meta=FACT), refused=REPEAT))
    late = words(event(E.Running(meta=FACT), refused="generation 40 is not the newest one"))

    assert twice == "RUNNING, generation 40; written once more, and counted once"
    assert late == "RUNNING, generation 40; not counted: generation 40 is not the newest one"


def test_a_refused_request_says_why() -> None:
    said = words(event(E.StartRequested(meta=ASKED), refused="it runs already"))

    assert said == "asked to start by ana; refused: it runs already"


def test_an_event_of_a_newer_gateway_is_named_as_it_is() -> None:
    newer = gateway_pb2.Event(type="daggers.v1.Frozen", sequence=1)

    assert words(newer) == "Frozen"
