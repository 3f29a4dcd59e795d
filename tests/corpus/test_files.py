"""Manifests as hack/corpus reads them."""

from pathlib import Path

import pytest

from hack.lab.corpus.errors import CorpusError
from hack.lab.corpus.expected import EXPECTED
from hack.lab.corpus.files import OWN, read

CONFIG_MAP = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\n"


def write(directory: Path, text: str, name: str = "one.yaml") -> Path:
    path = directory / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return directory


def test_our_own_are_sixty_nine_and_share_no_name_in_a_cluster() -> None:
    files = read(OWN)
    assert len(files) == 69
    claims = [claim for file in files for claim in file.claims]
    assert len(claims) == len(set(claims))
    assert EXPECTED.keys() <= {file.name for file in files}


def test_our_own_have_every_kind_of_workload_and_every_sort_of_volume() -> None:
    objects = [obj for file in read(OWN) for obj in file.objects]
    kinds = {obj["kind"] for obj in objects}
    assert {"Deployment", "StatefulSet", "DaemonSet", "Job", "CronJob", "ReplicaSet", "Pod"} <= kinds
    assert {"HorizontalPodAutoscaler", "PodDisruptionBudget", "Ingress", "NetworkPolicy", "Lease"} <= kinds
    specs = [obj["spec"].get("template", {}).get("spec", obj["spec"]) for obj in objects if "spec" in obj]
    volumes = {
        source for spec in specs for volume in spec.get("volumes") or () for source in volume if source != "name"
    }
    assert {"configMap", "secret", "emptyDir", "hostPath", "persistentVolumeClaim", "projected"} <= volumes
    assert {"downwardAPI", "ephemeral", "nfs", "csi"} <= volumes


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: ConfigMap\nmetadata: {name: one}", "one.yaml, document 1: apiVersion is missing"),
        (CONFIG_MAP + "---\napiVersion: v1\nmetadata: {name: two}", "one.yaml, document 2: kind is missing"),
        ("apiVersion: v1\nkind: ConfigMap", "one.yaml, document 1, ConfigMap: metadata.name is missing"),
        ("apiVersion: v1\nkind: List\nitems: [{kind: Pod}]", "one.yaml, document 1, items, document 1: apiVersion"),
        ("- a\n- b", "one.yaml, document 1: an object is wanted, not list"),
        ("a: b: c", "one.yaml, line 1 is not YAML: mapping values are not allowed here"),
        ("# nothing", "one.yaml has no objects"),
    ],
)
def test_what_is_no_manifest_is_refused_with_file_object_and_field(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(CorpusError) as refused:
        read(write(tmp_path, text))
    assert said in str(refused.value)


def test_all_bad_files_are_named_at_once(tmp_path: Path) -> None:
    write(write(tmp_path, "a: b: c"), "kind: X", "deep/two.yml")
    with pytest.raises(CorpusError, match=r"(?s)deep/two.yml, document 1.*one.yaml, line 1"):
        read(tmp_path)


def test_a_directory_without_manifests_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CorpusError, match="has no manifests: files ending in"):
        read(tmp_path)
    with pytest.raises(CorpusError, match="is no directory"):
        read(tmp_path / "missing")


def test_a_file_claims_its_namespaces_and_what_is_of_none(tmp_path: Path) -> None:
    text = """
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: one, namespace: kube-system}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: reader}
"""
    (file,) = read(write(tmp_path, text, "My_Shop/All.yaml"))
    assert file.namespaces == ["corpus-my-shop-all", "shop"]
    assert file.claims == {"corpus-my-shop-all", "shop", "ClusterRole/reader"}
    assert not file.generated


def test_a_file_with_a_name_to_be_made_up_is_created_and_not_applied(tmp_path: Path) -> None:
    (file,) = read(write(tmp_path, "apiVersion: v1\nkind: Pod\nmetadata: {generateName: one-}"))
    assert file.generated
