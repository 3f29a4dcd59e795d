"""Final state of a world once faults have ended."""

from collections import Counter

from tests.scheduler.reserve.world_model import Pod, World


def settle(world: World) -> None:
    """Run until nothing has changed for longer than any pause of an agent. Groups that do not fit are retried
    forever."""
    quiet, before = 0, None
    for _ in range(120):
        world.tick(1.0)
        after = (
            [(pod.uid, pod.claim_uid, pod.node_name) for pods in world.sources for pod in pods.values()],
            [sorted(target.chaperons) for target in world.targets.values()],
            world.requests,
        )
        quiet = quiet + 1 if str(after) == before else 0
        before = str(after)
        if quiet > 20:
            return


def check_settled(world: World) -> None:
    """Check that every pod that can run runs once, and that waiting pods hold no usable capacity."""
    for source, pods in enumerate(world.sources):
        sizes = Counter(pod.group for pod in pods.values() if pod.node_name)
        for pod in pods.values():
            running = [node for node, raw in world.of(source, pod) if world.runs(node, raw)]
            if pod.node_name:
                assert running == [pod.node_name], f"{pod.name} is bound to {pod.node_name} and runs on {running}"
                assert len(list(world.of(source, pod))) == 1, f"{pod.name} runs, and has candidates left"
            else:
                assert not running, f"{pod.name} runs on {running} and is not bound"
                if not pod.group:
                    assert not any(world.targets[node].free > 0 for node in pod.order), f"{pod.name} could run"
        for group, members in _waiting_groups(pods).items():
            assert not sizes[group] or members[0].size > len(members), f"{group} runs in part: {sizes[group]}"
            assert not _fits(world, members), f"group {group} could run"
    for target in world.targets.values():
        for raw in target.chaperons.values():
            uids = {pod.uid for pod in world.sources[raw["source"]].values()}
            assert raw["pod"] in uids, f"an orphan is left in {target.node_name}"


def _waiting_groups(pods: dict[str, Pod]) -> dict[str, list[Pod]]:
    """Return the members that do not run, of complete groups."""
    found: dict[str, list[Pod]] = {}
    for pod in pods.values():
        if pod.group and not pod.node_name:
            found.setdefault(pod.group, []).append(pod)
    complete = Counter(pod.group for pod in pods.values())
    return {group: members for group, members in found.items() if complete[group] >= members[0].size}


def _fits(world: World, members: list[Pod]) -> bool:
    """Return whether a group fits. Its members are equal, so counts suffice; temporary holds of waiting groups
    are free."""
    held = Counter(
        {node: sum(uid not in world.claims for uid in target.holds) for node, target in world.targets.items()}
    )
    free = [max(0, world.targets[node].free + held[node]) for node in members[0].order]
    return (max(free) if members[0].policy == "one-cluster" else sum(free)) >= len(members)
