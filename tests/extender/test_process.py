"""The extender as a separate process, as the chart runs it next to the candidate scheduler."""

import contextlib
import functools
import signal

import aiohttp
import pytest

from agent.kube.client import Client
from agent.pods.chaperon.controller import Chaperon
from hack.lab.sandbox import Cluster
from tests.controllers.starting import running
from tests.extender.candidates import (
    ALLOWED,
    HOLD,
    RESERVED,
    Asker,
    annotate,
    annotations,
    bound,
    candidate,
    own_kubeconfig,
    reserved,
)
from tests.processes import started
from tests.runtime.test_health import free_port
from tests.waiting import until

extender = functools.partial(started, "agent.extender")


async def page(http: aiohttp.ClientSession, url: str) -> str:
    with contextlib.suppress(aiohttp.ClientError):
        async with http.get(url) as answer:
            return await answer.text() if answer.status == 200 else ""
    return ""


@pytest.mark.cluster
async def test_it_binds_what_is_allowed_and_takes_back_what_is_not_with_no_other_rights_than_its_own(
    cluster: Cluster, client: Client, namespace: str
) -> None:
    health, address = (f"127.0.0.1:{free_port()}" for _ in range(2))
    flags = (f"--kubeconfig={await own_kubeconfig(cluster)}", f"--health-address={health}")
    async with (
        running(cluster, Chaperon),
        extender(*flags, f"--extender-address={address}", "--hold=60") as process,
        aiohttp.ClientSession() as http,
    ):
        await until(lambda: page(http, f"http://{health}/readyz"), 40)
        asker = Asker(http, f"http://{address}")
        web, late = [await candidate(client, namespace, name) for name in ("web", "late")]
        async with asker.binding(web, "test-node-0") as answer, asker.binding(late, "test-node-0") as left:
            for name in ("web", "late"):
                await reserved(client, namespace, name)
            assert "flotilla_extender_holds 2.0" in await page(http, f"http://{health}/metrics")
            await annotate(client, namespace, "web", ALLOWED, "true")
            assert await answer == ""
            assert await bound(client, namespace, "web") == "test-node-0"
            process.send_signal(signal.SIGTERM)
            assert "the extender is stopping" in await left
        _, told = await process.communicate()
        assert process.returncode == 0, told.decode()
        assert b"Traceback" not in told
        # The mark was removed before the process ended.
        assert not {RESERVED, HOLD} & (await annotations(client, namespace, "late")).keys()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        ([], "--extender-address: say where to serve"),
        (["--extender-address=0.0.0.0:10261"], "is not a loopback address"),
        (["--extender-address=127.0.0.1:10261", "--kubeconfig=/nonexistent"], "no kubeconfig at /nonexistent"),
    ],
    ids=["nowhere", "for everybody", "a kubeconfig that is missing"],
)
async def test_what_does_not_work_ends_it_with_one_line_that_says_why(flags: list[str], words: str) -> None:
    async with extender(*flags) as process:
        _, told = await process.communicate()
    assert process.returncode == 1
    assert words in told.decode()
    assert len(told.splitlines()) == 1
