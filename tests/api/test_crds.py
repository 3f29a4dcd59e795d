import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from agent.api.crds import crds

ROOT = Path(__file__).resolve().parents[2]
BY_KIND = {crd["spec"]["names"]["kind"]: crd for crd in crds()}


def schema(kind: str) -> dict[str, Any]:
    result: dict[str, Any] = BY_KIND[kind]["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    return result


def columns(kind: str) -> list[dict[str, Any]]:
    result: list[dict[str, Any]] = BY_KIND[kind]["spec"]["versions"][0]["additionalPrinterColumns"]
    return result


def nodes(value: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    yield path, value
    for name, inner in value.get("properties", {}).items():
        yield from nodes(inner, f"{path}.{name}")
    for name in ("items", "additionalProperties"):
        if isinstance(value.get(name), dict):
            yield from nodes(value[name], f"{path}.{name}")


@pytest.mark.parametrize(
    ("kind", "plural", "short", "scope"),
    [
        ("ClusterSource", "clustersources", "csrc", "Cluster"),
        ("ClusterSummary", "clustersummaries", "mcsum", "Cluster"),
        ("ClusterTarget", "clustertargets", "ctg", "Cluster"),
        ("PodChaperon", "podchaperons", "chap", "Namespaced"),
        ("Source", "sources", "src", "Namespaced"),
        ("Target", "targets", "tg", "Namespaced"),
    ],
)
def test_each_kind_is_served_as_admiralty_serves_it(kind: str, plural: str, short: str, scope: str) -> None:
    crd = BY_KIND[kind]
    assert crd["metadata"]["name"] == f"{plural}.multicluster.admiralty.io"
    assert crd["spec"]["scope"] == scope
    assert crd["spec"]["names"]["plural"] == plural
    assert crd["spec"]["names"]["shortNames"] == [short]
    (version,) = crd["spec"]["versions"]
    assert version["name"] == "v1alpha1"
    assert version["served"] is version["storage"] is True
    assert version["subresources"] == {"status": {}}


def test_there_are_six_of_admiraltys_and_two_of_our_own() -> None:
    groups = Counter(crd["spec"]["group"] for crd in crds())
    assert groups == {"multicluster.admiralty.io": 6, "multicluster.flotilla": 2}
    assert len(BY_KIND) == 8


@pytest.mark.parametrize("kind", sorted(BY_KIND))
def test_schemas_are_structural(kind: str) -> None:
    for path, node in nodes(schema(kind)):
        assert "type" in node or node.get("x-kubernetes-int-or-string"), path


@pytest.mark.parametrize("kind", ["Target", "ClusterTarget"])
def test_targets_are_checked_for_exactly_one_way_to_the_cluster(kind: str) -> None:
    root = schema(kind)
    assert root["required"] == ["spec"]
    for rule in root["properties"]["spec"]["x-kubernetes-validations"]:
        assert "self" in rule["message"]
        assert "kubeconfigSecret" in rule["message"]


def test_a_kubeconfig_secret_needs_a_name_and_a_cluster_targets_a_namespace_too() -> None:
    def required(kind: str) -> list[str]:
        result: list[str] = schema(kind)["properties"]["spec"]["properties"]["kubeconfigSecret"]["required"]
        return result

    assert required("Target") == ["name"]
    assert required("ClusterTarget") == ["namespace", "name"]


@pytest.mark.parametrize("kind", ["Target", "ClusterTarget", "Source", "ClusterSource"])
def test_conditions_are_merged_by_type_and_shown_as_columns(kind: str) -> None:
    conditions = schema(kind)["properties"]["status"]["properties"]["conditions"]
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert {"Ready", "Reason", "Age"} <= {column["name"] for column in columns(kind)}


def test_chaperons_keep_fields_that_nobody_here_knows() -> None:
    for field in ("spec", "status"):
        assert schema("PodChaperon")["properties"][field]["x-kubernetes-preserve-unknown-fields"] is True


def test_chaperons_have_admiraltys_columns_and_no_age() -> None:
    assert [(column["name"], column["jsonPath"]) for column in columns("PodChaperon")] == [
        ("reserved", r".metadata.annotations.multicluster\.admiralty\.io/is-reserved"),
        ("allowed", r".metadata.annotations.multicluster\.admiralty\.io/is-allowed"),
    ]


def test_the_summary_has_its_amounts_at_the_top() -> None:
    properties = schema("ClusterSummary")["properties"]
    assert set(properties) == {"apiVersion", "kind", "metadata", "capacity", "allocatable"}


def test_the_chart_has_these_crds() -> None:
    done = subprocess.run([sys.executable, ROOT / "hack/crds", "--check"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    in_chart = [
        yaml.safe_load(path.read_text()) for path in sorted((ROOT / "charts/flotilla/files/crds").glob("*.yaml"))
    ]
    assert in_chart == crds()


@pytest.mark.parametrize("kind", ["Target", "ClusterTarget"])
def test_targets_may_have_limits_for_any_resource(kind: str) -> None:
    limits = schema(kind)["properties"]["spec"]["properties"]["limits"]
    assert limits["additionalProperties"]["x-kubernetes-int-or-string"] is True
    assert "limits" not in schema(kind)["properties"]["spec"].get("required", [])
