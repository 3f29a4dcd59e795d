"""A real Prometheus scrapes an agent and a webhook and accepts every query of dashboard and alerts."""

import asyncio
import re
from functools import partial
from pathlib import Path

import pytest

from hack.lab.sandbox import Sandbox
from tests.chart.prometheus import Prometheus, programs, running
from tests.chart.test_monitoring import ALERTS, PANELS
from tests.docs.shell import Shell
from tests.waiting import until

pytestmark = [
    pytest.mark.full("Needs Prometheus."),
    pytest.mark.cluster,
    pytest.mark.timeout(300),
    pytest.mark.asyncio(loop_scope="session"),
]

NOTHING_TO_SHOW = {
    "Failures": "nothing has failed, and nobody wrote at the same time",
    "Reservations": "nobody reserves in mode ranked",
    "Clusters decided": "there may be no Placement",
    "Scores of decided clusters": "there may be no Placement",
    "Queries for scores": "no Prometheus is asked",
    "Tasks started again": "none has failed",
    "Requests that failed": "none has",
    "Watches that ended": "none has",
    "Objects that cannot be read": "all can",
    "Warnings of targets left out": "none is",
    "Moves": "no pod moves",
    "Duration of moves, 99th percentile": "no pod moves",
    "Targets lost, held and flapping": "every target is there",
    "ServiceLinks": "there is none without --service-links",
    "Writes for shared Services": "no Service may be shared",
    "Gateways of peers": "there is no gateway",
    "Refused connections": "there is no gateway",
    "Connections through gateways": "there is no gateway",
    "Traffic through gateways": "there is no gateway",
}
"""Panels with data only after a failure or with an optional feature."""

_THRESHOLD = re.compile(r" (?:==|>|<) [0-9.]+$")
_OF_TROUBLE = {"FlotillaReconcileErrors", "FlotillaTaskFails", "FlotillaForbidden", "FlotillaUnauthorized",
               "FlotillaApiErrors", "FlotillaMovesStuck", "FlotillaGatewayPeerSilent"}  # fmt: skip

POD = """kubectl --context cd apply -f - <<EOF
apiVersion: v1
kind: Pod
metadata:
  name: NAME
  annotations: {multicluster.admiralty.io/elect: ""}
spec:
  containers: [{name: main, image: nginx, resources: {requests: {cpu: "CPU"}}}]
EOF
"""


@pytest.mark.seldom
async def test_every_query_is_understood_and_shows_what_there_is(shell: Shell, tmp_path: Path) -> None:
    await asyncio.to_thread(programs)
    source = Sandbox.open(shell.folder / ".sandbox")["cd"]
    jobs = {
        "flotilla-agent": [f"{source.address}:{source.ports['agent-health']}"],
        "flotilla-webhook": [f"{source.address}:{source.ports['webhook-health']}"],
    }
    async with running(tmp_path, jobs) as prometheus:
        await shell.run(POD.replace("NAME", "measured").replace("CPU", "100m"))
        await shell.run(POD.replace("NAME", "too-big").replace("CPU", "1000"))
        await shell.run("kubectl --context cd wait pod/measured --for=condition=Ready --timeout=60s")
        for panel in PANELS:
            for target in panel["targets"]:
                expression = target["expr"].replace("$job", ".*").replace("$__rate_interval", "1m")
                if panel["title"] in NOTHING_TO_SHOW:
                    await prometheus.query(expression)
                else:
                    await shows(prometheus, expression)
        for name, rule in ALERTS.items():
            await prometheus.query(rule["expr"])
            if name not in _OF_TROUBLE and "absent" not in rule["expr"]:
                await shows(prometheus, _THRESHOLD.sub("", rule["expr"]))
        await shows(prometheus, ALERTS["FlotillaPodsWait"]["expr"])
        for name in ("FlotillaNoLeader", "FlotillaNoWebhook", "FlotillaTargetNotReady", "FlotillaWebhookFails"):
            assert await prometheus.query(ALERTS[name]["expr"]) == [], name
    await shell.run("kubectl --context cd delete pod measured too-big --wait=false")


async def shows(prometheus: Prometheus, expression: str) -> None:
    """Wait until a query returns series. A rate needs two scrapes."""
    await until(partial(prometheus.query, expression), 30)
