"""The commands in README and documentation, run verbatim. Leftovers of one page must not disturb the next."""

import re

import pytest
import pytest_asyncio

from hack.lab.sandbox import Sandbox
from tests.docs.conftest import QUICK_START
from tests.docs.pages import DOCS, blocks
from tests.docs.shell import Shell
from tests.waiting import until

pytestmark = [
    pytest.mark.full("Types every command of the pages on a sandbox."),
    pytest.mark.cluster,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="session"),
]


def of(name: str) -> list[str]:
    """Return the blocks of a page that this file runs."""
    return [block.text for block in blocks(DOCS / name, "sh") if not block.mark]


async def test_quick_start(shell: Shell) -> None:
    start, names, elect = shell.quick_start
    assert "already up; everything runs" in start
    assert {"admiralty-default-us", "admiralty-default-eu"} <= set(names.split())
    assert "successfully rolled out" in elect
    look, choose, why, move, drain, _ = QUICK_START[len(shell.quick_start) :]
    seen = await shell.run(look)
    assert seen.count("podchaperon.multicluster.admiralty.io/web-") == 6
    assert "admiralty-default-us" in seen
    assert await shell.run(choose)
    said = await shell.run(why)
    assert "0/2 targets are available: eu: " in said
    assert "insufficient cpu on every node (largest 32)" in said
    assert "Waits for:" in said
    moved = [line.split() for line in (await shell.run(move)).splitlines() if line.startswith("web-")]
    assert [line[2] for line in moved if line[1] == "Running"][-6:] == ["us"] * 6
    await shell.run(drain)


async def test_whole_namespaces(shell: Shell) -> None:
    for block in of("guides/whole-namespaces.md"):
        await shell.run(block)
    await shell.run("kubectl delete namespace everything --wait=false")


@pytest.mark.seldom
async def test_joining_and_parting(shell: Shell) -> None:
    # With clusters on the loopback interface, join refuses without the flag.
    loopback = Sandbox.open(shell.folder / ".sandbox")["us"].address.startswith("127.")
    for block in of("start/first-steps.md"):
        await shell.run(block.replace("flotilla join", "flotilla join --allow-loopback") if loopback else block)
    await shell.run("for C in cd us; do kubectl --context $C delete namespace team --wait=false; done")
    assert not list(shell.folder.glob("*.kubeconfig"))


@pytest_asyncio.fixture(scope="module", loop_scope="session")
async def placements(shell: Shell) -> str:
    """Output of the first block on its page, which makes the source serve the Placement CRDs."""
    return await shell.run(of("guides/placement.md")[0])


@pytest.mark.seldom
async def test_placements(shell: Shell, placements: str) -> None:
    _, first, follow, what_if, wait = of("guides/placement.md")
    scores, no_scores = of("guides/scores.md")
    assert {"default", "global"} <= {line.split()[0] for line in placements.splitlines() if line}
    said = await shell.run(first)
    assert "Placement default/web: 1 of 2 clusters, satisfied" in said
    assert "reason: Balance 100, Steady 100" in said
    placed = [line.split()[2] for line in (await shell.run(follow)).splitlines() if line.startswith("placed-")]
    assert len(placed) == 4
    assert len(set(placed)) == 1
    said = await shell.run(what_if)
    assert "Placement default/web of gold.yaml, which is not applied: 1 of 2 clusters, satisfied" in said
    assert "us       yes      400    Balance 100, Steady 100 x 3" in said
    assert said.count("label tier is missing, wanted In [gold]") == 4
    assert "not in Placement web: " in await shell.run(wait)
    said = await shell.run(scores)
    assert "eu       yes      80     cheap 80 (valid until " in said
    assert "us       yes      98     cheap 98 (valid until " in said
    await shell.run(no_scores)


@pytest.mark.seldom
@pytest.mark.usefixtures("placements")
async def test_placements_of_a_hub(shell: Shell) -> None:
    hub, end = of("guides/migrate-from-ocm.md")
    said = await shell.run(hub)
    assert "Placement default/from-hub of hub.yaml, which is not applied: 0 of 2 clusters, not satisfied" in said
    assert "Placement default/from-hub: 1 of 2 clusters, satisfied" in said
    await shell.run(end)


async def test_moves(shell: Shell) -> None:
    for page in ("choose-targets", "move", "shutdown-delay", "publish-addresses"):
        for block in of(f"guides/{page}.md"):
            await shell.run(block)
    await shell.run("kubectl delete ingress web")
    await shell.run("kubectl annotate namespace default multicluster/targets- multicluster/shutdown-delay-")


@pytest.mark.seldom
async def test_blue_and_green(shell: Shell) -> None:
    blue, green, part, emptied, end = of("guides/blue-green.md")
    assert (await shell.run(blue)).count(" admiralty-default-us ") == 4
    seen = await shell.run(green)
    assert seen.count(" admiralty-default-eu ") == 4
    assert len([line for line in seen.splitlines() if re.match(r"shop-\w+ +4 +4 +4", line)]) == 1, seen
    assert len([line for line in (await shell.run(part)).splitlines() if line.startswith("shop-")]) == 6
    await shell.run(emptied)
    await shell.run(end)


async def test_admiraltys_walkthrough(shell: Shell) -> None:
    output = ""
    for block in (*of("guides/migrate-from-admiralty.md"), *of("guides/admiralty-walkthrough.md")):
        output = await shell.run(block)
    lines = [line.split() for line in output.splitlines() if " Completed " in line or " Succeeded " in line]
    assert len(lines) == 20, output
    assert all("admiralty-walkthrough-eu" in line for line in lines if line[0].startswith("eu-"))
    await shell.run("kubectl --context cd delete namespace walkthrough --wait=false")


SIGNAL_API_SERVER = 'pkill -{} -f "kube-apiserver.*$PWD/.sandbox/eu/"'


@pytest.mark.seldom
async def test_what_is_said_of_targets(shell: Shell) -> None:
    for block in (*of("guides/failover.md"), *of("guides/stateful.md"), *of("guides/drain-and-retire.md")):
        is_cut_off = "--now" in block
        if is_cut_off:
            await shell.run(SIGNAL_API_SERVER.format("STOP"))
            await shell.run("kubectl wait target eu --for=condition=Reachable=False --timeout=60s")
        try:
            await shell.run(block)
        finally:
            if is_cut_off:
                await shell.run(SIGNAL_API_SERVER.format("CONT"))
                await shell.run("kubectl wait target eu --for=condition=Ready --timeout=60s")
        await shell.run("kubectl annotate target eu multicluster/failover-now- multicluster/lost- multicluster/retire-")
    await shell.run("kubectl annotate namespace default multicluster/fence-")


@pytest.mark.seldom
async def test_a_target_that_is_gone_for_good(shell: Shell) -> None:
    before, now, why, lost, remove, join, end = of("guides/disaster-recovery.md")
    # Start all pods in `eu`, even if that target is busy.
    both = "multicluster/targets='eu > us'"
    assert both in before
    assert (await shell.run(before.replace(both, "multicluster/targets=eu"))).count(" admiralty-default-eu ") == 5
    await shell.run(f"kubectl annotate --overwrite namespace default {both}")
    await shell.run(SIGNAL_API_SERVER.format("STOP"))
    try:
        await shell.run("kubectl wait target eu --for=condition=Reachable=False --timeout=60s")
        seen = await shell.run(now)
        assert "Lost: True (Asked)" in seen

        async def are_terminating() -> bool:
            """The last pod is deleted shortly after its replacement is bound; the page waits only for the
            binding."""
            return (await shell.run("kubectl get pods --selector part=recovery")).count(" Terminating ") == 3

        await until(are_terminating, what="pods of the lost target are deleted")
        said = [line.split() for line in (await shell.run(why)).splitlines()]
        assert [reason for _, reason in said] == ["IdentityMayRun"] * 2
        seen = await shell.run(lost)
        pods = [line.split() for line in seen.splitlines() if " admiralty-default-" in line]
        found = sorted((pod[0].split("-")[0], pod[2]) for pod in pods if "admiralty-default-us" in pod)
        assert {*found} == {("ledger", "Running"), ("report", "Running"), ("shop", "Running")}
        assert [pod[2] for pod in pods if "admiralty-default-eu" in pod] == ["TargetLost"]
        assert '"failed"' not in seen.splitlines()[-1]
        assert "eu" not in (await shell.run(remove)).splitlines()[-1].split()[0]
    finally:
        await shell.run(SIGNAL_API_SERVER.format("CONT"))
    loopback = Sandbox.open(shell.folder / ".sandbox")["us"].address.startswith("127.")
    seen = await shell.run(join.replace("flotilla join", "flotilla join --allow-loopback") if loopback else join)
    assert seen.count(" admiralty-default-us ") == 5
    await shell.run(end)
