"""Links resolve, generated tables are up to date, and manifests are accepted by API servers."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from agent.api.kinds import CLUSTER_SOURCES, CLUSTER_TARGETS, RESOURCE_QUOTAS, SOURCES, TARGETS
from agent.cli.checks import clusters
from agent.cli.joining import checks
from agent.kube.client import Client
from hack.lab.sandbox import download
from hack.lab.sandbox.objects import REPOSITORY
from hack.lab.sandbox.plan import OLDEST
from tests.docs.pages import DOCS, PAGES, README, anchors, blocks

_LINK = re.compile(r"\]\(([^)\s]+)\)")
_KINDS = {kind.name: kind for kind in (TARGETS, CLUSTER_TARGETS, SOURCES, CLUSTER_SOURCES, RESOURCE_QUOTAS)}

MANIFESTS = [
    manifest
    for page in (DOCS / "concepts/topologies.md", DOCS / "guides/burst.md")
    for block in blocks(page, "yaml")
    for manifest in yaml.safe_load_all(block.text)
]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in _LINK.findall(page.read_text()):
        file, _, anchor = target.partition("#")
        found = (page.parent / file).resolve() if file else page
        assert found.exists(), target
        assert not anchor or anchor in anchors(found), target


def test_every_page_is_in_the_index() -> None:
    index = (DOCS / "README.md").read_text()
    pages = {str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md")}
    assert {page for page in pages if f"({page})" not in index} == {"README.md"}


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*/*.md")), ids=lambda page: page.stem)
def test_the_first_paragraph_names_its_readers(page: Path) -> None:
    title, paragraph, *_ = page.read_text().split("\n\n")
    assert title.startswith("# ")
    assert paragraph.startswith("For ")


def test_tables_that_the_code_says_already_are_up_to_date() -> None:
    done = subprocess.run([sys.executable, "hack/docs", "--check"], cwd=REPOSITORY, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_the_versions_of_kubernetes_that_are_stated_are_those_of_the_tests() -> None:
    oldest, newest = (".".join(version.removeprefix("v").split(".")[:2]) for version in (OLDEST, download.KUBERNETES))
    stated = f"Kubernetes {oldest} or newer: tests run {oldest} and {newest}, also as source and target of each other."
    assert stated in (DOCS / "start/installation.md").read_text()
    assert f"Kubernetes {oldest} or newer" in README.read_text()
    assert f'kubeVersion: ">={oldest}.0-0"' in (REPOSITORY / "charts/flotilla/Chart.yaml").read_text()
    assert checks.OLDEST == clusters.OLDEST == tuple(map(int, oldest.split(".")))


@pytest.mark.cluster
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda each: f"{each['kind']} {each['metadata']['name']}")
async def test_an_api_server_takes_the_manifests_of_topologies(client: Client, namespace: str, manifest: dict) -> None:
    kind = _KINDS[manifest["kind"]]
    assert manifest["apiVersion"] == kind.api_version
    assert kind.namespaced == ("namespace" in manifest["metadata"])
    made = {**manifest, "metadata": {**manifest["metadata"], **({"namespace": namespace} if kind.namespaced else {})}}
    answer = await client.session.request(
        "POST",
        kind.path(namespace if kind.namespaced else None),
        params={"dryRun": "All", "fieldValidation": "Strict"},
        body=json.dumps(made).encode(),
    )
    assert json.loads(answer)["spec"] == manifest["spec"]
