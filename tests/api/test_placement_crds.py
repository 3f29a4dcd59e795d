"""The CRDs of Open Cluster Management on a real API server: accepted, defaulted and refused fields."""

from typing import Any

import pytest
import yaml

from agent.api.crds import crds, placement_crds
from agent.api.kinds import (
    ADDON_PLACEMENT_SCORES,
    CRDS,
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTER_SETS,
    MANAGED_CLUSTERS,
    PLACEMENT_DECISIONS,
    PLACEMENTS,
    Kind,
)
from agent.api.names.ocm import OURS
from agent.kube.client import Client
from agent.kube.errors import Invalid
from hack.lab.sandbox.objects import REPOSITORY
from tests.api.test_crds import nodes
from tests.ocm import object_of

Raw = dict[str, Any]

KINDS = {
    MANAGED_CLUSTERS: ["mcl", "mcls"],
    MANAGED_CLUSTER_SETS: ["mclset", "mclsets"],
    MANAGED_CLUSTER_SET_BINDINGS: ["mclsetbinding", "mclsetbindings"],
    PLACEMENTS: None,
    PLACEMENT_DECISIONS: None,
    ADDON_PLACEMENT_SCORES: None,
}
MOMENT = "2026-01-01T00:00:00Z"


def made(kind: Kind, name: str = "x", **fields: Any) -> Raw:
    return object_of(kind, name, **fields)


def test_the_kinds_are_those_of_open_cluster_management_and_say_that_they_are_ours() -> None:
    found = {crd["metadata"]["name"]: crd for crd in placement_crds()}
    assert found.keys() == {str(kind) for kind in KINDS}
    for kind, short_names in KINDS.items():
        crd = found[str(kind)]
        (version,) = crd["spec"]["versions"]
        assert crd["metadata"]["labels"] == {OURS: "true"}
        assert crd["spec"]["names"].get("shortNames") == short_names
        assert crd["spec"]["scope"] == ("Namespaced" if kind.namespaced else "Cluster")
        assert (version["name"], version["subresources"]) == (kind.version, {"status": {}})
        for path, node in nodes(version["schema"]["openAPIV3Schema"]):
            assert "type" in node or node.get("x-kubernetes-int-or-string"), path
    # The CRDs are installed only on request.
    assert not found.keys() & {crd["metadata"]["name"] for crd in crds()}


def test_the_chart_has_these_crds_apart_from_its_own() -> None:
    folder = REPOSITORY / "charts/flotilla/files/placement-crds"
    assert [yaml.safe_load(path.read_text()) for path in sorted(folder.glob("*.yaml"))] == placement_crds()


PLACEMENT: Raw = {
    "clusterSets": ["prod"],
    "numberOfClusters": 2,
    "predicates": [
        {
            "requiredClusterSelector": {
                "labelSelector": {"matchLabels": {"a": "b"}},
                "claimSelector": {"matchExpressions": [{"key": "gpu", "operator": "Inn", "values": ["true"]}]},
                "celSelector": {"celExpressions": ["managedCluster.scores('x').size() > 0"]},
            }
        }
    ],
    "prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"builtIn": "Spread"}}]},
    "spreadPolicy": {"spreadConstraints": [{"topologyKey": "a.b/zone", "topologyKeyType": "Label"}]},
    "tolerations": [{"key": "a.b/c", "tolerationSeconds": 60}],
    "decisionStrategy": {"groupStrategy": {"decisionGroups": [{"groupName": "ab", "groupClusterSelector": {}}]}},
}
REFUSED = (
    ({"prioritizerPolicy": {"configurations": [{}]}}, "scoreCoordinate: Required"),
    ({"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {}, "weight": 11}]}}, "weight"),
    ({"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"type": "Other"}}]}}, "type"),
    ({"prioritizerPolicy": {"configurations": [{"scoreCoordinate": {"addOn": {"scoreName": "a"}}}]}}, "resourceName"),
    ({"spreadPolicy": {"spreadConstraints": [{"topologyKey": "a", "topologyKeyType": "Zone"}]}}, "topologyKeyType"),
    ({"spreadPolicy": {"spreadConstraints": [{"topologyKey": "a", "topologyKeyType": "Claim", "maxSkew": 0}]}}, "Skew"),
    ({"spreadPolicy": {"spreadConstraints": [{"topologyKey": "a", "topologyKeyType": "Claim"}] * 9}}, "at most 8"),
    ({"tolerations": [{"key": "a b"}]}, r"tolerations\[0\].key"),
    ({"tolerations": [{"effect": "NoSchedule"}]}, r"tolerations\[0\].effect"),
    ({"decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": "101%"}}}, "clustersPerDecisionGroup"),
    ({"decisionStrategy": {"groupStrategy": {"decisionGroups": [{"groupName": "a"}]}}}, "groupName"),
    ({"sortBy": "Name"}, "sortBy"),
    ({"scoreRateLimit": "soon"}, "scoreRateLimit"),
)


async def placements_have_the_references_defaults_and_refusals(client: Client, namespace: str) -> None:
    kept = (await client.create(PLACEMENTS, made(PLACEMENTS, spec=PLACEMENT), namespace))["spec"]
    (configured,) = kept["prioritizerPolicy"]["configurations"]
    assert configured == {"scoreCoordinate": {"type": "BuiltIn", "builtIn": "Spread"}, "weight": 1}
    assert kept["prioritizerPolicy"]["mode"] == "Additive"
    (spread,) = kept["spreadPolicy"]["spreadConstraints"]
    assert (spread["maxSkew"], spread["whenUnsatisfiable"]) == (1, "ScheduleAnyway")
    assert kept["tolerations"][0]["operator"] == "Equal"
    assert kept["decisionStrategy"]["groupStrategy"]["clustersPerDecisionGroup"] == "100%"
    assert (kept["sortBy"], kept["scoreRateLimit"]) == ("ClusterName", "1m")
    # The original has no enum, nor has this CRD: a controller reports invalid values.
    assert kept["predicates"] == PLACEMENT["predicates"]
    free = {
        "prioritizerPolicy": {"mode": "Other"},
        "numberOfClusters": -1,
        "tolerations": [{"operator": "Like"}],
        "decisionStrategy": {"groupStrategy": {"clustersPerDecisionGroup": 0}},
    }
    await client.create(PLACEMENTS, made(PLACEMENTS, "free", spec=free), namespace)
    for spec, field in REFUSED:
        with pytest.raises(Invalid, match=field):
            await client.create(PLACEMENTS, made(PLACEMENTS, "wrong", spec=spec), namespace)
    with pytest.raises(Invalid, match="spec: Required"):
        await client.create(PLACEMENTS, made(PLACEMENTS, "wrong"), namespace)


async def sets_and_clusters_have_the_references_defaults_and_refusals(client: Client, namespace: str) -> None:
    found = await client.create(MANAGED_CLUSTER_SETS, made(MANAGED_CLUSTER_SETS, namespace, spec={}))
    assert found["spec"] == {"clusterSelector": {"selectorType": "ExclusiveClusterSetLabel"}}
    other = {"clusterSelector": {"selectorType": "LegacyClusterSetLabel"}}
    with pytest.raises(Invalid, match="selectorType"):
        await client.create(MANAGED_CLUSTER_SETS, made(MANAGED_CLUSTER_SETS, "wrong", spec=other))
    managed = {"managedNamespaces": [{"name": "shop"}]}
    found = await client.patch(MANAGED_CLUSTER_SETS, namespace, {"spec": managed})
    assert found["spec"]["managedNamespaces"] == managed["managedNamespaces"]
    with pytest.raises(Invalid, match="managedNamespaces"):
        await client.patch(MANAGED_CLUSTER_SETS, namespace, {"spec": {"managedNamespaces": [{"name": "Shop"}]}})
    empty = made(MANAGED_CLUSTER_SET_BINDINGS, spec={"clusterSet": ""})
    with pytest.raises(Invalid, match="clusterSet"):
        await client.create(MANAGED_CLUSTER_SET_BINDINGS, empty, namespace)
    taints = [{"key": "a.b/c", "effect": "NoSelect", "timeAdded": None}]
    # Every field of the spec is optional: on a hub, different users may create and accept a cluster.
    found = await client.create(MANAGED_CLUSTERS, made(MANAGED_CLUSTERS, namespace, spec={"taints": taints}))
    assert found["spec"] == {"taints": taints, "leaseDurationSeconds": 60}
    claims = {"clusterClaims": [{"name": "id.k8s.io", "value": "v" * 1024}], "allocatable": {"cpu": 4, "memory": "1Gi"}}
    claims |= {"managedNamespaces": [{"clusterSet": "prod", "name": "shop"}]}
    patched = await client.patch(MANAGED_CLUSTERS, namespace, {"status": claims}, sub="status")
    assert patched["status"] == claims
    for wrong, field in (
        ({"taints": [{"key": "a", "effect": "NoSchedule"}]}, "effect"),
        ({"taints": [{"key": "a b", "effect": "NoSelect"}]}, "key"),
    ):
        with pytest.raises(Invalid, match=field):
            await client.patch(MANAGED_CLUSTERS, namespace, {"spec": wrong})
    long = {"clusterClaims": [{"name": "a", "value": "v" * 1025}]}
    with pytest.raises(Invalid, match="value"):
        await client.patch(MANAGED_CLUSTERS, namespace, {"status": long}, sub="status")


async def scores_and_decisions_are_status_alone(client: Client, namespace: str) -> None:
    scores = {"scores": [{"name": "a", "value": -100}, {"name": "b", "value": 100}], "validUntil": MOMENT}
    found = await client.create(ADDON_PLACEMENT_SCORES, made(ADDON_PLACEMENT_SCORES, status=scores), namespace)
    assert "status" not in found
    patch = {"status": scores}
    found = await client.patch(ADDON_PLACEMENT_SCORES, "x", patch, namespace, sub="status")
    assert found["status"] == scores
    for wrong in ([{"name": "a", "value": 101}], [{"name": "a", "value": -101}], [{"name": "a"}]):
        with pytest.raises(Invalid, match="value"):
            await client.patch(ADDON_PLACEMENT_SCORES, "x", {"status": {"scores": wrong}}, namespace, sub="status")
    await client.create(PLACEMENT_DECISIONS, made(PLACEMENT_DECISIONS), namespace)
    decided = {"decisions": [{"clusterName": "c2", "reason": "Steady 100", "score": -(2**40)}]}
    found = await client.patch(PLACEMENT_DECISIONS, "x", {"status": decided}, namespace, sub="status")
    assert found["status"] == decided
    bare = {"status": {"decisions": [{"clusterName": "c2"}]}}
    with pytest.raises(Invalid, match="reason"):
        await client.patch(PLACEMENT_DECISIONS, "x", bare, namespace, sub="status")


@pytest.mark.cluster
@pytest.mark.usefixtures("placement_kinds")
async def test_an_api_server_takes_defaults_and_refuses_what_open_cluster_managements_does(
    client: Client, namespace: str
) -> None:
    for kind in KINDS:
        found = await client.get(CRDS, str(kind))
        conditions = {item["type"]: item["status"] for item in found["status"]["conditions"]}
        assert conditions["Established"] == conditions["NamesAccepted"] == "True"
        assert "NonStructuralSchema" not in conditions
    await placements_have_the_references_defaults_and_refusals(client, namespace)
    await sets_and_clusters_have_the_references_defaults_and_refusals(client, namespace)
    await scores_and_decisions_are_status_alone(client, namespace)
