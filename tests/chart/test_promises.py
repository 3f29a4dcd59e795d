"""Some promises of tests/e2e with the chart's pods. `hack/test tests/e2e --installed-by=chart` runs all."""

import asyncio
import os
import sys

import pytest

from hack.lab.sandbox import process
from hack.lab.sandbox.objects import REPOSITORY
from tests.sandbox.realnode.conftest import why_not

pytestmark = [pytest.mark.seldom, pytest.mark.cluster, pytest.mark.e2e, pytest.mark.timeout(480), pytest.mark.asyncio]

SOME = ("test_01_proxy_pods.py", "test_06_killed_agents.py::test_an_agent_killed_while_a_namespace_goes[0]")


async def test_promises_are_kept_by_pods_as_by_processes() -> None:
    if reason := why_not():
        pytest.skip(reason)
    # The child process must not share this run's pytest cache or workers.
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    files = [str(REPOSITORY / "tests" / "e2e" / name) for name in SOME]
    flags = ("--installed-by=chart", "-p", "no:cacheprovider", "--numprocesses=0")
    run = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "pytest", *flags, *files),
        cwd=REPOSITORY,
        env=environment,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    try:
        output, _ = await run.communicate()
    finally:
        if run.returncode is None:
            # SIGINT, like Ctrl-C, makes pytest remove its clusters.
            run.send_signal(2)
            await process.wait_gone([run.pid], 60)
    assert run.returncode == 0, output.decode()
    assert " passed" in output.decode()
