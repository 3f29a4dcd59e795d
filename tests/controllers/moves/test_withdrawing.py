"""Removal of copies from targets by `flotilla uninstall`, with two clusters."""

import pytest

from agent.api import names
from agent.api.conditions import set_condition
from agent.api.kinds import CONFIGMAPS, PERSISTENT_VOLUME_CLAIMS, SERVICES, TARGETS
from agent.base.clock import SystemClock
from agent.cli.remove_copies import withdraw
from agent.dependencies.follow import FollowController
from agent.services.copies import GlobalServices
from tests.controllers.dependencies.test_follow import volume
from tests.controllers.dependencies.test_follow_claims import DATA, SPEC
from tests.controllers.pair import Pair
from tests.controllers.target_links import add, kubeconfig

pytestmark = pytest.mark.cluster

COPIES = ((CONFIGMAPS, "words"), (SERVICES, "web"), (PERSISTENT_VOLUME_CLAIMS, "data"))


async def test_copies_go_from_targets_but_those_with_data_and_what_is_out_of_reach_is_named(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "words", data={"a": "1"})
    await pair.create(PERSISTENT_VOLUME_CLAIMS, "data", spec=SPEC)
    metadata = {"annotations": {"multicluster/global": "true"}}
    await pair.create(SERVICES, "web", metadata=metadata, spec={"selector": {"app": "web"}, "ports": [{"port": 80}]})
    async with pair.at_work(FollowController, GlobalServices):
        await pair.pod("web", volumes=[volume("words"), *DATA])
        for kind, name in COPIES:
            await pair.copy(kind, name)
    foreign = await pair.there.create(CONFIGMAPS, {"metadata": {"name": "theirs"}}, pair.namespace)
    await add(pair.here, pair.namespace, "eu", kubeconfig(pair.clusters[1]))
    await add(pair.here, pair.namespace, "lost", kubeconfig(pair.clusters[1], server="https://127.0.0.1:1"))

    said: list[str] = []
    await withdraw(pair.here, said.append, copies=False)
    await pair.copy(SERVICES, "web")
    await withdraw(pair.here, said.append, copies=True)
    await pair.gone(CONFIGMAPS, "words")
    await pair.gone(SERVICES, "web")
    await pair.copy(PERSISTENT_VOLUME_CLAIMS, "data")
    assert await pair.there.get(CONFIGMAPS, "theirs", pair.namespace) == foreign
    assert len(said) == 1
    assert said[0].startswith(f"copies may be left in target {pair.namespace}/lost: ")
    assert f"{names.LABEL_PARENT_CLUSTER_UID}=" in said[0]


async def test_a_target_that_leads_to_another_cluster_is_named_and_nothing_goes_from_that(pair: Pair) -> None:
    await pair.create(CONFIGMAPS, "words", data={"a": "1"})
    async with pair.at_work(FollowController):
        await pair.pod("web", volumes=[volume("words")])
        await pair.copy(CONFIGMAPS, "words")
    await add(pair.here, pair.namespace, "eu", kubeconfig(pair.clusters[1]))
    conditions = set_condition(None, "Ready", "False", "WrongCluster", "it leads elsewhere", SystemClock().now())
    await pair.here.patch(TARGETS, "eu", {"status": {"conditions": conditions}}, pair.namespace, sub="status")
    said: list[str] = []
    await withdraw(pair.here, said.append, copies=True)
    await pair.copy(CONFIGMAPS, "words")
    assert len(said) == 1
    assert said[0].startswith(f"copies may be left in target {pair.namespace}/eu: it leads elsewhere")
