"""Controllers of an agent, and the modules that it imports for them."""

import subprocess
import sys

from agent.controllers import optional_controllers
from agent.model.promscore import PrometheusScore
from agent.settings import Settings

OFF = (
    "applications.controller",
    "klusterlet.works",
    "moves.lost_targets",
    "moves.mover.controller",
    "placement.prometheus_scores",
    "services.ac3",
    "services.gateways",
    "services.imports",
    "services.links",
)


def test_a_controller_that_may_be_off_is_not_imported() -> None:
    said = "import sys, agent.app; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, timeout=60, check=True)
    imported = run.stdout.split()
    assert "agent.targets.target.controller" in imported
    assert not [f"agent.{each}" for each in OFF if f"agent.{each}" in imported]


def test_settings_ask_for_controllers() -> None:
    assert optional_controllers(Settings(moves=False, service_links=False)) == []
    scores = (PrometheusScore("scores[0]", "cost", "costs", "http://prometheus", "up", "cluster", 0, 1, 60, None, ""),)
    on = dict.fromkeys(("moves", "service_links", "mcs", "p2code", "ac3_networks", "gateway"), True)
    asked = Settings(prometheus_scores=scores, **on)
    packages = {".".join(each.__module__.split(".")[1:3]) for each in optional_controllers(asked)}
    assert packages == {
        "moves.mover",
        "services.links",
        "services.imports",
        "applications.controller",
        "services.ac3",
        "services.gateways",
        "placement.prometheus_scores",
        "moves.lost_targets",
        "moves.fence",
    }
