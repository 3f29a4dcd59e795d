"""The CRD of P2CODE's scheduler: its schema, field by field, and its example on a real API server."""

from pathlib import Path

import pytest
import yaml

from agent.api.crds import crds, p2code_crds
from agent.api.kinds import CRDS, SCHEDULING_MANIFESTS
from agent.api.names.p2code import bundle_placement, cut
from agent.kube.client import Client
from agent.kube.errors import Invalid, NotFound
from hack.lab.sandbox.objects import REPOSITORY, apply
from tests.api.test_crds import nodes
from tests.waiting import until

EXAMPLE = Path(__file__).parent / "p2code.yaml"
"""Example of the article about P2CODE: two workloads with different requirements, a caller and its backend."""


def test_the_kind_is_p2codes_and_nobody_gets_it_who_has_not_asked() -> None:
    (crd,) = p2code_crds()
    spec = crd["spec"]
    assert crd["metadata"]["name"] == "p2codeschedulingmanifests.scheduling.p2code.eu"
    assert spec["group"] == "scheduling.p2code.eu"
    assert spec["scope"] == "Namespaced"
    assert spec["names"] == {
        "kind": "P2CodeSchedulingManifest",
        "listKind": "P2CodeSchedulingManifestList",
        "plural": "p2codeschedulingmanifests",
        "singular": "p2codeschedulingmanifest",
    }
    (version,) = spec["versions"]
    assert (version["name"], version["served"], version["storage"]) == ("v1alpha1", True, True)
    assert version["subresources"] == {"status": {}}
    (column,) = version["additionalPrinterColumns"]
    assert (column["name"], column["jsonPath"]) == ("State", ".status.state")
    assert crd["metadata"]["name"] not in {each["metadata"]["name"] for each in crds()}
    folder = REPOSITORY / "charts/flotilla/files/p2code-crds"
    assert [yaml.safe_load(path.read_text()) for path in folder.glob("*.yaml")] == [crd]


def test_its_fields_are_those_of_p2code() -> None:
    (crd,) = p2code_crds()
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec, status = schema["properties"]["spec"], schema["properties"]["status"]
    assert spec["properties"].keys() == {"globalAnnotations", "workloadAnnotations", "manifests"}
    assert spec["required"] == ["manifests"]
    assert spec["properties"]["globalAnnotations"]["items"]["type"] == "string"
    workload = spec["properties"]["workloadAnnotations"]["items"]
    assert {name: each["type"] for name, each in workload["properties"].items()} == {
        "name": "string",
        "annotations": "array",
    }
    assert "required" not in workload
    assert spec["properties"]["manifests"]["items"]["x-kubernetes-preserve-unknown-fields"] is True
    assert status["required"] == ["conditions", "decisions", "state"]
    assert status["properties"].keys() == {"conditions", "decisions", "state"}
    assert status["properties"]["decisions"]["items"]["properties"].keys() == {"workloadName", "clusterSelected"}
    for path, node in nodes(schema):
        assert "default" not in node, path
        assert "x-kubernetes-validations" not in node, path


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("web-shop", "web-shop"),
        ("x" * 63, "x" * 63),
        ("x" * 64, "x" * 52 + "-7ce100971f"),
        ("x" * 51 + "-" + "y" * 20, "x" * 51 + "-c1123d324a"),
    ],
)
def test_names_over_63_characters_are_cut_and_told_apart(name: str, short: str) -> None:
    assert cut(name) == short
    assert len(short) <= 63
    assert cut("x" * 63 + "a") != cut("x" * 63 + "b")


def test_a_placement_is_named_after_its_bundle_and_the_application() -> None:
    assert bundle_placement("default", "shop") == "default-shop"
    assert len(bundle_placement("w" * 63, "shop")) == 63


@pytest.mark.cluster
async def test_an_api_server_takes_the_example_whole_and_refuses_what_has_no_manifests(
    client: Client, namespace: str
) -> None:
    (crd,) = p2code_crds()
    await apply(client, CRDS, crd)
    example = yaml.safe_load(EXAMPLE.read_text())
    example["metadata"]["namespace"] = namespace

    async def served() -> bool:
        try:
            await client.list(SCHEDULING_MANIFESTS, namespace)
        except NotFound:
            return False
        return True

    await until(served)
    assert (await client.create(SCHEDULING_MANIFESTS, example))["spec"] == example["spec"]
    with pytest.raises(Invalid, match=r"spec\.manifests"):
        await client.create(
            SCHEDULING_MANIFESTS, {**example, "metadata": {"generateName": "x-"}, "spec": {}}, namespace
        )
