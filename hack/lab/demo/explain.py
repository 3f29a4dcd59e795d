"""Details of a failed step, from the clusters and from the logs of the sandbox."""

from collections.abc import Iterable, Iterator

from agent.api.kinds import EVENTS
from agent.kube.errors import KubeError
from hack.lab.demo.fleet import DemoState, Raw
from hack.lab.demo.reader import Clients
from hack.lab.sandbox import Sandbox
from hack.lab.sandbox.components import AGENT, WEBHOOK, components
from hack.lab.sandbox.manifests import NAMESPACE
from hack.lab.sandbox.process import last_lines

_EVENTS = 6


async def explain(clients: Clients, sandbox: Sandbox, fleet: DemoState | None) -> list[str]:
    """Return conditions, the latest warnings of every cluster, and the ends of logs, as far as they can be read."""
    lines = list(_conditions(fleet)) if fleet is not None else []
    for name, client in clients.all.items():
        try:
            events = await client.list(EVENTS, NAMESPACE, fields="type=Warning")
        except KubeError as error:
            lines.append(f"events of {name} cannot be read: {error}")
            continue
        lines += (f"event in {name}: {text}" for text in _latest(events))
    return lines + list(_logs(sandbox))


def dead(sandbox: Sandbox) -> list[str]:
    """Return the processes of the sandbox that have ended, each with the end of its log."""
    return [
        f"{line.process} of {line.cluster} has ended; its log:\n{last_lines(sandbox[line.cluster].log(line.process))}"
        for line in sandbox.status()
        if line.pid is None
    ]


def _conditions(fleet: DemoState) -> Iterator[str]:
    for name, target in sorted(fleet.targets.items()):
        yield from (f"Target {name}: {text}" for text in _unmet(target))
    for (kind, name), obj in sorted(fleet.workloads.items()):
        yield from (f"{kind} {name}: {text}" for text in _unmet(obj))
    waiting = [proxy for proxy in fleet.proxies if proxy.why]
    yield from (f"Pod {proxy.name}: {proxy.why}" for proxy in waiting[:3])


def _unmet(obj: Raw) -> Iterator[str]:
    for condition in (obj.get("status") or {}).get("conditions") or ():
        failure = "Fail" in condition["type"]
        if condition.get("status") != ("False" if failure else "True"):
            yield f"{condition['type']} is {condition.get('status')}: {condition.get('message') or condition['reason']}"


def _latest(events: Iterable[Raw]) -> list[str]:
    return [_told(event) for event in sorted(events, key=_moment)[-_EVENTS:]]


def _told(event: Raw) -> str:
    """Format an event. API servers omit empty fields, even `regarding`."""
    about = event.get("regarding") or {}
    return (
        f"{about.get('kind', '')} {about.get('name', '')}: {event.get('reason', '')}: {event.get('note', '')}".strip()
    )


def _moment(event: Raw) -> str:
    series = event.get("series") or {}
    moment = series.get("lastObservedTime") or event.get("deprecatedLastTimestamp") or event.get("eventTime")
    return str(moment or event["metadata"]["creationTimestamp"])


def _logs(sandbox: Sandbox) -> Iterator[str]:
    for cluster in sandbox.clusters:
        for component in (AGENT, WEBHOOK):
            if component.name in components(sandbox.plan):
                yield f"{cluster.log(component.name)}:"
                yield last_lines(cluster.log(component.name))
