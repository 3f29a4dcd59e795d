"""The verbs about Placements, on a real API server with the CRDs of Open Cluster Management."""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
import yaml

from agent.api.kinds import (
    ADDON_PLACEMENT_SCORES,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    ROLE_BINDINGS,
    SERVICE_ACCOUNTS,
)
from agent.api.names.ocm import CONDITION_AVAILABLE, LABEL_PLACEMENT
from agent.kube.client import Client
from hack.lab.sandbox import Cluster
from hack.lab.sandbox.objects import token
from tests.cli.command import Told, flotilla
from tests.ocm import Hub, object_of
from tests.waiting import until

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(120)]

Raw = dict[str, Any]


@dataclass
class Terminal(Hub):
    """A user's terminal, and the clusters of a ManagedClusterSet with the namespace's name."""

    kubeconfig: Path = field(kw_only=True)

    async def available(self, short: str, **claims: str) -> None:
        """Set a ManagedCluster available, with these claims."""
        found = {"type": CONDITION_AVAILABLE, "status": "True", "reason": "ManagedClusterAvailable", "message": "m"}
        status = {
            "conditions": [found | {"lastTransitionTime": "2026-01-01T00:00:00Z"}],
            "clusterClaims": [{"name": name, "value": value} for name, value in claims.items()],
        }
        await self.client.patch(MANAGED_CLUSTERS, self.name(short), {"status": status}, sub="status")

    async def as_account(self, name: str, folder: Path) -> "Terminal":
        """Return the terminal of another user with a service account."""
        await self.make(SERVICE_ACCOUNTS, name, self.namespace)
        document = yaml.safe_load(self.kubeconfig.read_text())
        document["users"][0]["user"] = {"token": await token(self.client, self.namespace, name)}
        kubeconfig = folder / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(document))
        return Terminal(self.client, self.namespace, kubeconfig=kubeconfig)

    async def run(self, *words: str) -> Told:
        """Run the command. Return exit status, output and errors."""
        return await flotilla(*words, "--kubeconfig", str(self.kubeconfig))

    async def read(self, *words: str) -> Raw:
        """Return the command's JSON output."""
        code, output, errors = await self.run(*words, "-o", "json")
        assert (code, errors) == (0, "")
        found: Raw = json.loads(output)
        return found


@pytest_asyncio.fixture
async def hub(cluster: Cluster, client: Client, namespace: str, placement_kinds: None) -> AsyncIterator[Terminal]:
    """ManagedClusters `eu`, `us`, and `ap`, which has a taint."""
    hub = Terminal(client, namespace, kubeconfig=cluster.kubeconfig)
    try:
        await hub.make(MANAGED_CLUSTER_SETS, namespace, spec={})
        await hub.cluster("eu")
        await hub.cluster("us")
        await hub.cluster("ap", [{"key": "maintenance", "effect": "NoSelect"}])
        await hub.available("eu", gpu="true")
        for short in ("us", "ap"):
            await hub.available(short)
        yield hub
    finally:
        await hub.close()


def placement(namespace: str, **spec: Any) -> Raw:
    return object_of(PLACEMENTS, "web", namespace, spec=spec)


async def test_clusters_and_sets_are_shown_and_bound(hub: Terminal) -> None:
    eu = f"{hub.namespace}-eu"
    (line,) = (await hub.read("clusters", eu))["clusters"]
    assert (line["sets"], line["available"], line["claims"]) == ([hub.namespace], "True", {"gpu": "true"})
    code, output, _ = await hub.run("clusters")
    assert code == 0
    (row,) = (each for each in output.splitlines() if each.startswith(f"{hub.namespace}-ap"))
    assert row.split()[1:] == [hub.namespace, "True", "maintenance:NoSelect", "-", "-"]
    bound = f"set {hub.namespace} is bound to namespace {hub.namespace}"
    code, output, errors = await hub.run("bind", hub.namespace, "-n", hub.namespace)
    assert (code, output, errors) == (0, f"{bound}: its Placements may choose from the clusters of this set\n", "")
    assert await hub.run("bind", hub.namespace, "-n", hub.namespace) == (0, f"{bound} already\n", "")
    (line,) = (await hub.read("clustersets", hub.namespace))["clustersets"]
    assert line["clusters"] == [f"{hub.namespace}-{short}" for short in ("ap", "eu", "us")]
    assert line["namespaces"] == [hub.namespace]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("clusters", "mars"), "there is no ManagedCluster mars (there is: "),
        (("clustersets", "mars"), "there is no ManagedClusterSet mars (there is: "),
        (("bind", "mars"), "there is no ManagedClusterSet mars (there is: "),
        (("bind", "SET", "-n", "mars"), "there is no namespace mars: create it, or name another one by -n"),
        (("explain", "placement", "mars"), "there is no Placement default/mars (there is: "),
        (("explain", "placement", "-f", "mars.yaml"), "mars.yaml cannot be read: "),
    ],
)
async def test_what_is_not_there_is_refused_with_words(hub: Terminal, words: tuple[str, ...], says: str) -> None:
    code, output, errors = await hub.run(*(hub.namespace if word == "SET" else word for word in words))
    assert (code, output) == (1, "")
    assert says in errors


async def test_who_may_not_is_told_so(hub: Terminal, tmp_path: Path) -> None:
    somebody = await hub.as_account("somebody", tmp_path)
    for words, kind in (
        (("clusters",), MANAGED_CLUSTERS),
        (("clustersets",), MANAGED_CLUSTER_SETS),
        (("bind", hub.namespace, "-n", hub.namespace), MANAGED_CLUSTER_SET_BINDINGS),
        (("explain", "placement", "web", "-n", hub.namespace), PLACEMENTS),
    ):
        code, output, errors = await somebody.run(*words)
        assert (code, output) == (1, "")
        assert "the cluster does not let you: " in errors
        assert str(kind.plural) in errors


async def test_a_placement_is_explained_applied_and_from_a_file(hub: Terminal, tmp_path: Path) -> None:
    place = hub.namespace
    eu, us, ap = (f"{place}-{short}" for short in ("eu", "us", "ap"))
    await hub.run("bind", place, "-n", place)
    await hub.make(NAMESPACES, us)
    scored = {"scores": [{"name": "cpu", "value": 40}], "validUntil": "2099-01-01T00:00:00Z"}
    await hub.make(ADDON_PLACEMENT_SCORES, "usage", us, status=scored)
    score = {"type": "AddOn", "addOn": {"resourceName": "usage", "scoreName": "cpu"}}
    policy = {"mode": "Exact", "configurations": [{"scoreCoordinate": score}]}
    one = placement(place, clusterSets=[place], numberOfClusters=1, prioritizerPolicy=policy)
    file = tmp_path / "web.yaml"
    file.write_text(yaml.safe_dump(one))
    code, output, errors = await hub.run("explain", "placement", "-f", str(file))
    assert (code, errors) == (0, "")
    assert output.splitlines()[0].startswith(f"Placement {place}/web of {file}, which is not applied: 1 of ")
    told = {each["cluster"]: each for each in (await hub.read("explain", "placement", "-f", str(file)))["clusters"]}
    assert (told[us]["decided"], told[us]["score"], told[us]["reason"]) == (True, 40, "AddOn/usage/cpu 40")
    assert told[us]["valid_until"] == {"AddOn/usage/cpu": "2099-01-01T00:00:00Z"}
    assert told[eu]["refusal"] == "score 0, not among the best 1"
    assert told[ap]["refusal"] == "taint maintenance:NoSelect is not tolerated"
    assert not await hub.client.list(PLACEMENTS, place)

    await hub.client.create(PLACEMENTS, one, place)
    labels = {LABEL_PLACEMENT: "web"}
    decided = {"decisions": [{"clusterName": eu, "reason": ""}]}
    await hub.make(PLACEMENT_DECISIONS, "web-decision-1", place, metadata={"labels": labels}, status=decided)
    found = await hub.read("explain", "placement", "web", "-n", place)
    assert [each["cluster"] for each in found["clusters"] if each["decided"]] == [eu]
    assert found["decided_at"]
    assert f"evaluated now, it comes to {us}" in found["notes"][0]
    code, output, _ = await hub.run("explain", "placement", "web", "-n", place)
    assert code == 0
    assert "nobody has evaluated it yet" in output


async def test_cel_and_what_is_wrong_in_a_file(hub: Terminal, tmp_path: Path) -> None:
    await hub.run("bind", hub.namespace, "-n", hub.namespace)
    file = tmp_path / "web.yaml"

    async def explain(**spec: Any) -> Told:
        file.write_text(yaml.safe_dump(placement(hub.namespace, **spec)))
        return await hub.run("explain", "placement", "web", "-f", str(file), "-n", hub.namespace)

    def cel(expression: str) -> list[Raw]:
        return [{"requiredClusterSelector": {"celSelector": {"celExpressions": [expression]}}}]

    code, output, errors = await explain(predicates=cel("managedCluster.metadata.name.endsWith('-us')"))
    assert (code, errors) == (0, "")
    told = {row.split()[0]: row.split()[1] for row in output.splitlines() if row.startswith(hub.namespace)}
    assert told == {f"{hub.namespace}-us": "yes", f"{hub.namespace}-eu": "no", f"{hub.namespace}-ap": "no"}
    code, output, _ = await explain(predicates=cel("managedCluster.nothing("))
    assert code == 0
    assert "  Misconfigured: Predicate:compilation failed: " in output
    code, output, errors = await explain(numberOfCluster=2, sortBy="Name")
    assert (code, output) == (1, "")
    assert errors.splitlines() == [
        f"flotilla: {file}: spec.numberOfCluster: unknown field; did you mean numberOfClusters?",
        "spec.sortBy: 'Name' is none of ClusterName, Score",
    ]


async def test_who_sees_only_their_namespace_is_told_what_is_left_out(hub: Terminal, tmp_path: Path) -> None:
    await hub.run("bind", hub.namespace, "-n", hub.namespace)
    await hub.make(PLACEMENTS, "web", hub.namespace, spec={})
    subject = {"kind": "ServiceAccount", "name": "viewer", "namespace": hub.namespace}
    for kind, kinds, namespace in (
        (CLUSTER_ROLE_BINDINGS, (MANAGED_CLUSTERS, MANAGED_CLUSTER_SETS), ""),
        (ROLE_BINDINGS, (MANAGED_CLUSTER_SET_BINDINGS, PLACEMENTS, PLACEMENT_DECISIONS), hub.namespace),
    ):
        name = f"{hub.namespace}-{kind.plural}"
        rules = [{"apiGroups": [each.group], "resources": [each.plural], "verbs": ["get", "list"]} for each in kinds]
        await hub.make(CLUSTER_ROLES, name, rules=rules)
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        await hub.make(kind, name, namespace, roleRef=role, subjects=[subject])
    viewer = await hub.as_account("viewer", tmp_path)

    async def allowed() -> bool:
        return all([(await viewer.run(*words))[0] == 0 for words in (("clusters",), explain)])

    explain = ("explain", "placement", "web", "-n", hub.namespace)
    await until(allowed)
    _, _, errors = await viewer.run("clusters")
    assert "Note: targets are left out: " in errors
    assert "Note: Balance counts no decisions of other namespaces: " in (await viewer.run(*explain))[1]
