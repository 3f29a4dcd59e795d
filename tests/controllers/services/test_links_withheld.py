"""ServiceLinks that are no longer readable: their narrowing stays, and later changes apply afterwards."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from agent.api.kinds import CLUSTER_ROLES, SERVICE_LINKS
from agent.clusters import optional_watch
from agent.services.copies import GlobalServices
from agent.services.endpoints import EndpointsController
from tests.controllers.limited import limited
from tests.controllers.pair import Pair
from tests.controllers.servicelinks import Links, shared_with_eu
from tests.waiting import until

pytestmark = pytest.mark.cluster

BOTH = ["http", "admin"]
GROUPS = ("", "apps", "batch", "coordination.k8s.io", "discovery.k8s.io", "events.k8s.io", "multicluster.admiralty.io")


async def test_links_that_may_not_be_read_any_more_narrow_as_before(
    pair: Pair, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("_BRIEF_SECONDS", "_LOOK_SECONDS", "_NO_ANSWER_SECONDS"):
        monkeypatch.setattr(optional_watch, name, 0.5)
    groups = [{"apiGroups": [group], "resources": ["*"], "verbs": ["*"]} for group in GROUPS]
    links_too = [*groups, {"apiGroups": [SERVICE_LINKS.group], "resources": ["*"], "verbs": ["*"]}]
    head = {"apiVersion": SERVICE_LINKS.api_version, "kind": SERVICE_LINKS.name}

    async def allow(rules: list[dict[str, Any]]) -> None:
        await pair.here.patch(CLUSTER_ROLES, pair.namespace, {"rules": rules})

    async with (
        shared_with_eu(pair),
        limited(pair.clusters[0], pair.here, pair.namespace, tmp_path, links_too) as weak,
    ):
        limited_pair = dataclasses.replace(pair, clusters=(weak, pair.clusters[1]))
        spec = {"service": "web", "to": [{"cluster": "local-cluster"}]}
        await pair.here.create(SERVICE_LINKS, {**head, "metadata": {"name": "web"}, "spec": spec}, pair.namespace)
        async with limited_pair.at_work(
            EndpointsController, GlobalServices, service_links=True, discovery_interval=0.5
        ):
            deps = limited_pair.deps
            assert deps is not None
            links = Links(pair, deps.cluster_uid)
            await links.offered_by_both()
            await links.mirrored(pair.here, [("10.2.0.1", True, BOTH)])

            await allow(groups)

            def withheld() -> bool:
                # An open watch continues: API servers authorize a watch only when it begins.
                watch = deps.service_links._watched._watch
                if watch is not None and watch._informer is not None:
                    watch._informer.interrupt()
                return not deps.service_links.served

            await until(withheld, what="links are not read any more")
            # The cached links apply to all later writes.
            await links.annotate(network_driver="none")
            await links.mirrored(pair.here, [])
            await links.annotate(network_driver=None)
            await links.mirrored(pair.here, [("10.2.0.1", True, BOTH)])
            await links.mirrored(pair.there, [])

            # Changes from meanwhile apply once the links are readable again.
            await pair.here.delete(SERVICE_LINKS, "web", pair.namespace)
            await links.mirrored(pair.there, [])
            await allow(links_too)
            await links.mirrored(pair.there, [("10.1.0.1", True, BOTH)])
