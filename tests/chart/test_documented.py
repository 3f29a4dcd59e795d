"""The commands by which docs/installation.md installs, upgrades and uninstalls the chart."""

import shutil
from pathlib import Path

import pytest
import yaml

from agent.api.kinds import CRDS, DEPLOYMENTS
from agent.kube.client import Client
from agent.sandbox import Cluster
from tests.chart.helm import CHART, NAMESPACE
from tests.docs.conftest import checkout, programs
from tests.docs.pages import DOCS, blocks
from tests.docs.shell import Shell

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]


def earlier(folder: Path) -> None:
    """A chart of before there were dashboards and alerts: its release knows no defaults of theirs."""
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
    install, upgrade, uninstall = (
        block.text for block in blocks(DOCS / "installation.md", "sh") if block.mark == "helm"
    )
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
    await shell.run(uninstall)
    assert await client.list(DEPLOYMENTS, NAMESPACE) == []
    for crd in await client.list(CRDS):
        if crd["spec"]["group"] == "multicluster.admiralty.io":
            await client.delete(CRDS, crd["metadata"]["name"])
