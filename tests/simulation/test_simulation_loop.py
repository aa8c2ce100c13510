"""The simulated loop: virtual time, the seed's order, processes that die or stand still at any step."""

import asyncio
from random import Random

from tests.simulation.loop import Process, SimulatedLoop


def run(seed: int, *processes: Process, seconds: float = 10) -> list[str]:
    """What three turns of each process wrote, one simulated second apart."""
    loop, wrote = SimulatedLoop(Random(seed)), list[str]()

    async def body(name: str) -> None:
        try:
            for turn in range(3):
                await asyncio.sleep(1)
                wrote.append(f"{name}{turn}@{loop.time():g}")
        finally:
            wrote.append(f"{name} ends")

    async def world() -> None:
        for process in processes:
            loop.spawn(process, body(process.name))
        await asyncio.sleep(seconds)
        for process in processes:
            if process.paused:
                loop.resume(process)
        await asyncio.sleep(seconds)

    loop.run_until_complete(world())
    told = list(wrote)
    loop.close()
    return told


def test_time_is_simulated() -> None:
    assert run(0, Process("a")) == ["a0@1", "a1@2", "a2@3", "a ends"]


def test_the_same_seed_is_the_same_run_and_other_seeds_are_other_orders() -> None:
    runs = {seed: tuple(run(seed, Process("a"), Process("b"), Process("c"))) for seed in range(9)}

    assert (runs[3], len(set(runs.values())) > 1) == (
        tuple(run(3, Process("a"), Process("b"), Process("c"))),
        True,
    )


def test_a_killed_process_runs_nothing_more_not_even_its_cleanup_at_any_step() -> None:
    whole = run(0, Process("a"))

    told = [run(0, Process("a", dies_at=step)) for step in range(1, 8)]

    assert all(each == whole[: len(each)] for each in told)
    assert told[0] == []
    assert "a ends" not in told[3]


def test_a_paused_process_stands_still_while_time_goes_on() -> None:
    told = run(0, Process("a", paused=True), Process("b"))

    assert told == ["b0@1", "b1@2", "b2@3", "b ends", "a0@11", "a1@12", "a2@13", "a ends"]
