"""A copy whose creation is in flight when the last delegate gets its labels selects by exact labels, too."""

import asyncio
from typing import Any

import pytest

from agent.api import names
from agent.api.kinds import CHAPERONS, NODES, PODS, SERVICES, Kind
from agent.services.copies import GlobalServices
from tests.controllers.pair import Pair
from tests.controllers.services.test_copied_selectors import EXACT, PORTS, marked, old_chaperon, proxied
from tests.waiting import gone, until

pytestmark = pytest.mark.cluster


async def test_a_copy_whose_creation_is_answered_after_the_last_delegate_is_labelled(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    node = names.virtual_node(pair.namespace, "eu")
    await pair.here.create(NODES, {"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}})
    proxy = await pair.here.create(PODS, proxied("web", pair.namespace, node=node))
    try:
        async with pair.at_work(GlobalServices) as target:
            assert pair.deps is not None
            made = await old_chaperon(pair, proxy, pair.deps.cluster_uid)
            await until(lambda: is_any(pair, True))
            sent, answered, create = asyncio.Event(), asyncio.Event(), target.port.create_raw

            async def answered_late(kind: Kind, manifest: dict[str, Any]) -> bytes:
                answer = await create(kind, manifest)
                sent.set()
                await answered.wait()
                return answer

            monkeypatch.setattr(target.port, "create_raw", answered_late)
            annotations, spec = marked({"app": "web"}), {"selector": {"app": "web"}, "ports": PORTS}
            await pair.create(SERVICES, "web", metadata={"annotations": annotations}, spec=spec)
            await sent.wait()
            assert (await pair.copy(SERVICES, "web"))["spec"]["selector"] == {names.PREFIX + "app": "web"}
            await pair.there.delete(CHAPERONS, made["metadata"]["name"], pair.namespace)
            await until(lambda: is_any(pair, False))
            answered.set()
            await pair.copy(SERVICES, "web", lambda copy: EXACT.items() <= copy["spec"]["selector"].items())
    finally:
        await pair.end("web")
        await pair.here.delete(NODES, node)
        await gone(lambda: pair.here.get(NODES, node))


async def is_any(pair: Pair, expected: bool) -> bool:
    """Return whether the source's agent has cached a chaperon without labels (True), or none (False), as expected."""
    assert pair.deps is not None
    (target,) = pair.deps.targets.serving(pair.namespace)
    return pair.deps.unlabelled.any(target, pair.namespace) is expected
