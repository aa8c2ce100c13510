"""Who may call the gateway of a stack, and whom its token is shown."""

import os
import stat
from pathlib import Path

import pytest

from chassis.processes import boot_id, start_ticks
from cli.errors import RefusedError
from daggerspec import places
from devstack import remembered, services, state, tokens
from devstack.extension import Devstack
from devstack.processes import StackProcess
from devstack.state import Stack
from devstack.tokens import Access
from devstack.up import plan


def this_process(name: str) -> StackProcess:
    """A part of a stack that runs."""
    return StackProcess(name, os.getpid(), start_ticks(os.getpid()) or 0, boot_id(), "")


def test_a_new_stack_has_a_token_that_only_its_owner_reads_and_its_gateway_enforces(tmp_path: Path) -> None:
    stack = plan(tmp_path, None)
    told = services.gateway_environment(stack)
    assert stack.token_file is not None
    listed = Path(told["DAGGERS_GATEWAY_TOKEN_FILE"])

    assert listed.read_text() == f"administrator:{stack.token_file.read_text()}"
    assert [stat.S_IMODE(file.stat().st_mode) for file in (listed, stack.token_file)] == [0o600, 0o600]
    assert (told["DAGGERS_GATEWAY_ACCESS"], told["DAGGERS_GATEWAY_UNKNOWN_TEAMS"]) == ("enforce", "make")
    assert tokens.scheduler_environment(stack) == {"DAGGERS_SCHEDULER_EGRESS": "enforce"}


def test_every_team_may_have_its_secrets_in_the_folder_of_the_stack(tmp_path: Path) -> None:
    (tmp_path / "my stack").mkdir()
    stack = plan(tmp_path / "my stack", None)
    [place] = places.parse(services.gateway_environment(stack)["DAGGERS_SECRET_PLACES"])

    assert place == places.Place(str(tmp_path / "my stack" / "secrets"), "*", ("*",))
    assert stat.S_IMODE((stack.state_dir / "secrets").stat().st_mode) == 0o700


def test_a_stack_from_before_there_were_tokens_goes_on_without_one(tmp_path: Path) -> None:
    state.save(Stack(tmp_path, {"gateway": 20002}))
    stack = plan(tmp_path, None)
    told = services.gateway_environment(stack)

    assert stack.token_file is None
    assert [name for name in told if name in ("DAGGERS_GATEWAY_TOKEN_FILE", "DAGGERS_GATEWAY_ACCESS")] == []
    assert tokens.scheduler_environment(stack) == {}


def test_a_stack_is_started_with_or_without_a_token_as_somebody_says_and_keeps_to_it(tmp_path: Path) -> None:
    state.save(observing := plan(tmp_path, None, Access.OBSERVE))
    kept = plan(tmp_path, None)
    enforcing = plan(tmp_path, None, Access.ENFORCE).token_file is not None
    back = plan(tmp_path, None, Access.OBSERVE)

    assert (observing.token_file, kept.token_file, enforcing, back.token_file) == (None, None, True, None)
    assert [file.name for file in tmp_path.iterdir() if "token" in file.name] == []


def test_who_may_call_a_gateway_that_runs_is_not_changed_behind_its_back(tmp_path: Path) -> None:
    state.save(plan(tmp_path, None).with_process(this_process("gateway")))
    before = (tmp_path / "administrator.token").read_text()

    with pytest.raises(RefusedError, match=r"runs with --access enforce: stop it first"):
        plan(tmp_path, None, Access.OBSERVE)
    again = plan(tmp_path, None, Access.ENFORCE)

    assert again.token_file is not None
    assert again.token_file.read_text() == before


def test_a_stacks_token_is_for_its_gateways_own_address_while_that_runs(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    stack = plan(tmp_path / "mine", None)
    state.save(stack)
    remembered.remember(tmp_path, stack.state_dir, remembered.INSTALLATION)
    port = stack.gateway.rpartition(":")[2]

    def shown(*addresses: str, given: Path | None = None) -> list[bool]:
        return [Devstack().token_file(address, given, tmp_path) is not None for address in addresses]

    stopped = shown(stack.gateway)
    state.save(stack.with_process(this_process("gateway")))
    running = shown(stack.gateway, f"http://{stack.gateway}")
    others = shown(f"localhost:{port}", f"https://{stack.gateway}", f"{stack.gateway}0", "daggers.example:1")
    elsewhere = shown(stack.gateway, given=tmp_path / "another")

    assert (stopped, running) == ([False], [True, True])
    assert not any(others + elsewhere)


def test_a_damaged_stack_is_in_nobodys_way_who_names_a_gateway(tmp_path: Path) -> None:
    (tmp_path / state.FILE).write_text("{")

    assert Devstack().token_file("127.0.0.1:1", tmp_path, tmp_path) is None


def test_the_token_of_a_stack_stays_what_it_is(tmp_path: Path) -> None:
    first = plan(tmp_path, None)
    assert first.token_file is not None
    before = first.token_file.read_text()
    state.save(first)
    again = plan(tmp_path, None)

    assert again.token_file is not None
    assert again.token_file.read_text() == before
