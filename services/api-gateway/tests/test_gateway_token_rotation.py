"""A token file that is replaced while many call: who is in it is never refused, who left it is nobody."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path

import grpc
from daggers.v1 import gateway_pb2, gateway_pb2_grpc
from tests.gateways import served

from chassis.endpoint import endpoint
from chassis.files import replace_text

LASTING, FIRST, SECOND = (
    f"{name}-token-of-more-than-sixteen-letters" for name in ("lasting", "first", "second")
)
ROUNDS = 20
CALLERS = 8


async def test_a_token_file_is_replaced_under_load(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    replace_text(file, f"root:{LASTING}\nother:{FIRST}\n", private=True)
    outcomes: Counter[tuple[str, grpc.StatusCode]] = Counter()
    with served(
        endpoint("127.0.0.1:0", tokens=file), f"sqlite:///{tmp_path}/gateway.db", enforce=True
    ) as port:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            stub = gateway_pb2_grpc.AccessServiceStub(channel)

            async def called(token: str) -> grpc.StatusCode:
                metadata = (("authorization", f"Bearer {token}"),)
                try:
                    await stub.WhoAmI(gateway_pb2.WhoAmIRequest(), timeout=30, metadata=metadata)
                except grpc.aio.AioRpcError as error:
                    return error.code()
                return grpc.StatusCode.OK

            async def call_on(token: str, done: asyncio.Event) -> None:
                while not done.is_set():
                    outcomes[token, await called(token)] += 1

            done = asyncio.Event()
            async with asyncio.TaskGroup() as callers:
                for number in range(CALLERS):
                    callers.create_task(call_on((LASTING, FIRST, SECOND)[number % 3], done))
                for number in range(ROUNDS):
                    there, gone = (SECOND, FIRST) if number % 2 == 0 else (FIRST, SECOND)
                    replace_text(file, f"root:{LASTING}\nother:{there}\n", private=True)
                    assert await called(there) is grpc.StatusCode.OK  # the file is looked at for each call
                    assert await called(gone) is grpc.StatusCode.UNAUTHENTICATED
                done.set()

    assert {code for token, code in outcomes if token == LASTING} == {grpc.StatusCode.OK}
    assert {code for _, code in outcomes} <= {grpc.StatusCode.OK, grpc.StatusCode.UNAUTHENTICATED}
    assert outcomes[LASTING, grpc.StatusCode.OK] > ROUNDS
