"""The commands of README and documentation, run as they are written; what one page leaves the others do not mind."""

import pytest

from agent.sandbox import Sandbox
from tests.docs.conftest import QUICK_START
from tests.docs.pages import DOCS, blocks
from tests.docs.shell import Shell

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300), pytest.mark.asyncio(loop_scope="session")]


def of(name: str) -> list[str]:
    """The blocks of a page that are run here."""
    return [block.text for block in blocks(DOCS / name, "sh") if not block.mark]


async def test_quick_start(shell: Shell) -> None:
    start, names, elect, look, choose, why, drain, _ = QUICK_START
    assert "already up; everything runs" in await shell.run(start)
    assert {"admiralty-default-us", "admiralty-default-eu"} <= set((await shell.run(names)).split())
    assert "successfully rolled out" in await shell.run(elect)
    seen = await shell.run(look)
    assert seen.count("podchaperon.multicluster.admiralty.io/web-") == 6
    assert "admiralty-default-us" in seen
    assert await shell.run(choose)
    said = await shell.run(why)
    assert "0/2 targets are available: eu: " in said
    assert "insufficient cpu on every node (largest 32)" in said
    assert "Waits for:" in said
    await shell.run(drain)


async def test_whole_namespaces(shell: Shell) -> None:
    for block in of("concepts.md"):
        await shell.run(block)
    await shell.run("kubectl delete namespace everything --wait=false")


async def test_joining_and_parting(shell: Shell) -> None:
    # Where clusters share the loopback interface, this is what join refuses.
    loopback = Sandbox.open(shell.folder / ".sandbox")["us"].address.startswith("127.")
    for block in of("installation.md"):
        await shell.run(block.replace("flotilla join", "flotilla join --allow-loopback") if loopback else block)
    await shell.run("for C in cd us; do kubectl --context $C delete namespace team --wait=false; done")
    assert not list(shell.folder.glob("*.kubeconfig"))


async def test_admiraltys_walkthrough(shell: Shell) -> None:
    output = ""
    for block in of("migration.md"):
        output = await shell.run(block)
    lines = [line.split() for line in output.splitlines() if " Completed " in line or " Succeeded " in line]
    assert len(lines) == 20, output
    assert all("admiralty-walkthrough-eu" in line for line in lines if line[0].startswith("eu-"))
    await shell.run("kubectl --context cd delete namespace walkthrough --wait=false")
