"""`GatewayPod` adds the end of one of its processes to the error of a failing test."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from hack.lab.sandbox.gateways import GatewayPod
from tests.gateway.lab import address
from tests.waiting import until


async def failed(gateway: GatewayPod, ending: Callable[[], Awaitable[None]]) -> list[str]:
    """Return the notes of a failure after the gateway's Envoy has ended."""

    async def uses() -> None:
        async with gateway:
            await ending()
            raise AssertionError("nothing passes")

    with pytest.raises(AssertionError) as caught:
        await uses()
    return getattr(caught.value, "__notes__", [])


async def test_whoever_fails_learns_that_a_gateway_has_ended_by_itself_and_what_it_said() -> None:
    gateway = GatewayPod("uid-a", address())

    async def aborts() -> None:
        pid = gateway.pid()
        os.kill(pid, signal.SIGABRT)
        await until(lambda: not Path(f"/proc/{pid}").exists(), what="Envoy has ended")
        await asyncio.sleep(0.1)

    (note,) = await failed(gateway, aborts)
    assert f"The gateway at {gateway.address} has ended by itself" in note
    assert "Caught Aborted" in note


async def test_a_gateway_that_was_told_to_end_is_not_named() -> None:
    gateway = GatewayPod("uid-a", address())
    assert await failed(gateway, lambda: gateway.stop("envoy")) == []
