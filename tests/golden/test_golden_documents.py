"""What `-o json` prints is a contract: no byte of an answer changes, and none is left out."""

from typing import Any

import pytest
from daggers.v1 import gateway_pb2
from tests.filled import choices, filled
from tests.golden import commands, documents
from tests.golden.documents import VIEWS
from tests.golden.sections import read

WRITTEN = read(documents.FILE)
COMMANDS = read(commands.FILE)


@pytest.fixture(scope="module")
def printed() -> dict[str, str]:
    return documents.sections()


@pytest.fixture(scope="module")
def commands_printed() -> dict[str, str]:
    return commands.sections()


def test_every_answer_is_written_down(printed: dict[str, str], commands_printed: dict[str, str]) -> None:
    assert (list(printed), list(commands_printed)) == (list(WRITTEN), list(COMMANDS))


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_prints_what_it_printed(name: str, commands_printed: dict[str, str]) -> None:
    assert commands_printed[name] == COMMANDS[name]


@pytest.mark.parametrize("name", WRITTEN)
def test_an_answer_is_printed_as_it_was(name: str, printed: dict[str, str]) -> None:
    assert printed[name] == WRITTEN[name]


@pytest.mark.parametrize("name", VIEWS)
def test_a_filled_message_has_every_field(name: str) -> None:
    message: Any = filled(VIEWS[name][0])
    alternatives = {field.name for oneof in message.DESCRIPTOR.oneofs for field in oneof.fields}

    missing = {field.name for field in message.DESCRIPTOR.fields} - {
        field.name for field, _ in message.ListFields()
    }
    assert missing <= alternatives | {"next_page_token"}


def test_each_member_of_a_oneof_and_each_value_of_an_enum_is_found() -> None:
    found = list(choices(gateway_pb2.PreviewDaggerResponse.DESCRIPTOR))

    assert {path[0] for path, _ in found} >= {"columns", "progress", "rows", "done"}
    assert len({number for path, number in choices(gateway_pb2.Dagger.DESCRIPTOR) if path == ("phase",)}) > 3
