"""The CRD of AC3's network operator: its schema, field by field, and its example on a real API server."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.api.crds import ac3_crds, crds
from agent.api.kinds import CRDS, MULTI_CLUSTER_NETWORKS
from agent.kube.client import Client
from agent.kube.errors import Invalid, NotFound
from hack.lab.sandbox.objects import REPOSITORY, apply
from tests.api.test_crds import nodes
from tests.waiting import until

EXAMPLE = Path(__file__).parent / "ac3.yaml"
"""A Service in one cluster, called in another one."""
ENDS = {"sourceCluster", "targetCluster", "sourceNamespace", "targetNamespace"}


def test_the_kind_is_ac3s_and_nobody_gets_it_who_has_not_asked() -> None:
    (crd,) = ac3_crds()
    spec = crd["spec"]
    assert crd["metadata"]["name"] == "multiclusternetworks.ac3.redhat.com"
    assert (spec["group"], spec["scope"]) == ("ac3.redhat.com", "Namespaced")
    assert spec["names"] == {
        "kind": "MultiClusterNetwork",
        "listKind": "MultiClusterNetworkList",
        "plural": "multiclusternetworks",
        "singular": "multiclusternetwork",
    }
    (version,) = spec["versions"]
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
    assert version["subresources"] == {"status": {}}
    assert crd["metadata"]["name"] not in {each["metadata"]["name"] for each in crds()}
    folder = REPOSITORY / "charts/flotilla/files/ac3-crds"
    assert [yaml.safe_load(path.read_text()) for path in folder.glob("*.yaml")] == [crd]


def test_its_fields_are_those_of_ac3_and_conditions() -> None:
    (crd,) = ac3_crds()
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec, status = schema["properties"]["spec"], schema["properties"]["status"]
    assert spec["required"] == ["links"]
    assert status["properties"].keys() == {"previousLinks", "conditions"}
    for links in (spec["properties"]["links"], status["properties"]["previousLinks"]):
        link: dict[str, Any] = links["items"]
        assert set(link["required"]) == ENDS
        assert link["properties"].keys() == ENDS | {"applications", "services"}
        assert link["properties"]["applications"]["items"]["type"] == "string"
        service = link["properties"]["services"]["items"]
        assert {name: each["type"] for name, each in service["properties"].items()} == {
            "name": "string",
            "port": "integer",
        }
        assert service["required"] == ["name", "port"]
    for path, node in nodes(schema):
        assert "default" not in node, path
        assert "x-kubernetes-validations" not in node, path


@pytest.mark.cluster
async def test_an_api_server_takes_the_example_whole_and_refuses_what_has_no_links(
    client: Client, namespace: str
) -> None:
    await apply(client, CRDS, *ac3_crds())
    example = yaml.safe_load(EXAMPLE.read_text())
    example["metadata"]["namespace"] = namespace

    async def served() -> bool:
        try:
            await client.list(MULTI_CLUSTER_NETWORKS, namespace)
        except NotFound:
            return False
        return True

    await until(served)
    made = await client.create(MULTI_CLUSTER_NETWORKS, example)
    assert made["spec"] == example["spec"]
    told = {"status": {"previousLinks": example["spec"]["links"]}}
    kept = await client.patch(MULTI_CLUSTER_NETWORKS, "hello", told, namespace, sub="status")
    assert kept["status"] == told["status"]
    with pytest.raises(Invalid, match=r"spec\.links"):
        await client.create(
            MULTI_CLUSTER_NETWORKS, {**example, "metadata": {"generateName": "x-"}, "spec": {}}, namespace
        )
