"""The documented commands that install, upgrade and uninstall the chart."""

import shutil
from pathlib import Path

import pytest
import yaml

from agent.api.crds import ocm
from agent.api.kinds import CRDS, DEPLOYMENTS, PLACEMENTS
from agent.api.names.ocm import OURS
from agent.kube.client import Client
from hack.lab.sandbox import Cluster
from tests.chart.helm import CHART, NAMESPACE
from tests.controllers.installed import uninstalled
from tests.docs.conftest import checkout, programs
from tests.docs.pages import DOCS, blocks
from tests.docs.shell import Shell

pytestmark = [pytest.mark.full("Needs Helm."), pytest.mark.cluster, pytest.mark.timeout(240)]


def earlier(folder: Path) -> None:
    """Write a chart without dashboards and alerts: a release of it has no values for them."""
    shutil.copytree(CHART, folder)
    (folder / "templates/monitoring.yaml").unlink()
    file = folder / "values.yaml"
    values = yaml.safe_load(file.read_text())
    file.write_text(
        yaml.safe_dump({key: each for key, each in values.items() if key not in ("dashboard", "prometheusRule")})
    )


async def test_the_chart_is_installed_upgraded_and_uninstalled_as_documented(
    cluster: Cluster, client: Client, tmp_path: Path
) -> None:
    pages = (DOCS / "start/installation.md", DOCS / "guides/upgrade.md")
    install, uninstall, upgrade = (block.text for page in pages for block in blocks(page, "sh") if block.mark == "helm")
    folder = await programs(tmp_path / "programs")
    shell = Shell(checkout(tmp_path / "flotilla"), folder, KUBECONFIG=str(cluster.kubeconfig))
    charts = shell.folder / "charts"
    charts.unlink()
    earlier(charts / "flotilla")
    assert 'deployment "flotilla-agent" successfully rolled out' in await shell.run(install)
    shutil.rmtree(charts)
    charts.symlink_to(CHART.parent)
    await shell.run(upgrade)
    agent = await client.get(DEPLOYMENTS, "flotilla-agent", NAMESPACE)
    assert "--log-json" in agent["spec"]["template"]["spec"]["containers"][0]["args"]
    assert "--cluster-name=cd" in agent["spec"]["template"]["spec"]["containers"][0]["args"]
    await _takes_placements(shell, client)
    await shell.run(uninstall)
    assert await client.list(DEPLOYMENTS, NAMESPACE) == []
    left = [each for each in await client.list(CRDS) if each["spec"]["group"] == "multicluster.admiralty.io"]
    await uninstalled([client], [each["metadata"]["name"] for each in left])


async def _takes_placements(shell: Shell, client: Client) -> None:
    """Run the Placement commands of docs/guides/placement.md. Helm does not adopt CRDs of other tests, so delete those
    first."""
    (placements,) = (block.text for block in blocks(DOCS / "guides/placement.md", "sh") if block.mark == "helm")
    names = [each["metadata"]["name"] for each in ocm.crds()]
    await uninstalled([client], names)
    await shell.run(placements)
    crd = await client.get(CRDS, str(PLACEMENTS))
    assert crd["metadata"]["labels"][OURS] == "true"
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    await uninstalled([client], names)
