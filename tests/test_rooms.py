"""Which rooms an agent has, and which it imports."""

import subprocess
import sys

from agent.model.promscore import PrometheusScore
from agent.rooms import optional_rooms
from agent.settings import Settings

OFF = ("ac3", "gateways", "links", "mover.controller", "p2code", "promscores", "serviceimports", "targetlife")


def test_a_room_that_is_off_by_default_is_not_imported() -> None:
    said = "import sys, agent.app; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", said], capture_output=True, text=True, timeout=60, check=True)
    imported = run.stdout.split()
    assert "agent.controllers.target.controller" in imported
    assert not [f"agent.controllers.{each}" for each in OFF if f"agent.controllers.{each}" in imported]


def test_settings_ask_for_rooms() -> None:
    assert optional_rooms(Settings()) == []
    scores = (PrometheusScore("scores[0]", "cost", "costs", "http://prometheus", "up", "cluster", 0, 1, 60, None, ""),)
    on = dict.fromkeys(("moves", "service_links", "mcs", "p2code", "ac3_networks", "gateway"), True)
    asked = Settings(prometheus_scores=scores, **on)
    packages = {room.__module__.removeprefix("agent.controllers.").split(".")[0] for room in optional_rooms(asked)}
    assert packages == {
        "mover",
        "links",
        "serviceimports",
        "p2code",
        "ac3",
        "gateways",
        "promscores",
        "targetlife",
        "fence",
    }
