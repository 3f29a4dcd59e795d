"""Each fleet of the e2e tests can be installed with the chart."""

import json
from pathlib import Path

import pytest

from tests.chart import helm
from tests.e2e.fleets import AGENT_FLAGS, SPECS
from tests.e2e.values import values

pytestmark = pytest.mark.full("Needs Helm.")

VERSION = ("--kube-version", "1.36.3")


@pytest.mark.parametrize("fleet", SPECS)
def test_the_chart_takes_what_the_flags_of_a_fleet_say(fleet: str, tmp_path: Path) -> None:
    spec, file = SPECS[fleet], tmp_path / "values.json"
    scheduler = bool(spec.more.get("candidate_scheduler"))
    file.write_text(json.dumps(values("cd", [*AGENT_FLAGS, *spec.flags], candidate_scheduler=scheduler)))
    more = [flag for value in spec.values for flag in ("--set", value)]
    helm.run("template", "flotilla", str(helm.CHART), "-n", helm.NAMESPACE, *VERSION, "-f", str(file), *more)
