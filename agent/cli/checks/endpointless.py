"""Services that select ready proxy pods but have no ready endpoint: `read` lists them, `services` reports them."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from agent.api import names
from agent.api.conditions import is_true
from agent.api.kinds import ENDPOINT_SLICES, SERVICES
from agent.cli.checks.finding import Finding, fail, ok
from agent.cli.checks.view import Endpointless, View
from agent.kube.client import Client
from agent.model.abridged import abridged
from agent.model.pattern import InvalidPattern
from agent.model.relabel import collisions, relabel
from agent.model.service import InvalidService, is_copy, regexp, users_selector

Raw = dict[str, Any]

_SHOWN = 3
_NO_ADDRESS = (
    "give the clusters networks that do not overlap and route to each other, or a network driver with gateways; the"
    " condition ServicesShared of the Target says what is missing"
)
_COLLISION = (
    f"select by another label, or annotate the Service and its pods {names.SHORT_PREFIX}{names.NO_PREFIX_REGEXP} so"
    " that one of these labels keeps its key"
)
_UNSHARED = (
    "see the condition multicluster/Shared of the Service and ServicesShared of the Targets, and that the agent leads"
)


async def read(client: Client, proxies: Iterable[Raw]) -> tuple[Endpointless, ...]:
    """Read Services and slices of the namespaces of proxy pods. Raises KubeError."""
    ready = [pod for pod in proxies if _is_ready(pod)]
    if not ready:
        return ()
    services, slices = await asyncio.gather(client.list(SERVICES), client.list(ENDPOINT_SLICES))
    return tuple(found(services, slices, ready))


def found(services: Iterable[Raw], slices: Iterable[Raw], ready: Iterable[Raw]) -> Iterator[Endpointless]:
    """Return Services without ready endpoint that select ready proxy pods."""
    pods: dict[str, list[Raw]] = {}
    for pod in ready:
        pods.setdefault(pod["metadata"]["namespace"], []).append(pod)
    served = {_service_of(each) for each in slices if _has_ready(each)}
    for service in services:
        metadata, spec = service["metadata"], service["spec"]
        key = (metadata["namespace"], metadata["name"])
        if key in served or key[0] not in pods or is_copy(metadata.get("annotations")):
            continue
        try:
            selector = users_selector(service) if spec.get("type") != "ExternalName" else {}
        except (InvalidService, InvalidPattern):
            continue
        labelled = [(pod, pod["metadata"].get("labels") or {}) for pod in pods[key[0]]]
        selected = [pod for pod, labels in labelled if selector and selector.items() <= labels.items()]
        if selected:
            yield Endpointless(f"{key[0]}/{key[1]}", *_why(service, selector, selected))


def services(view: View) -> Iterator[Finding]:
    """Check that Services that select ready elected pods have endpoints."""
    if view.endpointless is None:
        return
    causes: dict[tuple[str, str], list[str]] = {}
    for each in view.endpointless:
        causes.setdefault((each.why, each.remedy), []).append(each.service)
    for (why, remedy), names_of in causes.items():
        what = f"elected pods that it selects are ready, and it has no endpoint: {why}"
        yield fail(f"Service {abridged(sorted(names_of), _SHOWN)}", what, remedy)
    if not causes:
        yield ok("endpoints", "Services that select ready elected pods have some")


def _why(service: Raw, selector: Mapping[str, str], selected: list[Raw]) -> tuple[str, str]:
    """Return the cause and its remedy."""
    live = service["spec"].get("selector") or {}
    if live == selector and not any((pod.get("status") or {}).get("podIP") for pod in selected):
        return "no pod has an address that this cluster can reach", _NO_ADDRESS
    wanted = relabel(selector, regexp(service["metadata"].get("annotations")))
    for pod in selected if live != selector else ():
        metadata = pod["metadata"]
        expression = names.annotation(metadata.get("annotations"), names.NO_PREFIX_REGEXP)
        there = relabel(metadata.get("labels"), expression)
        if not wanted.items() <= there.items() and (meet := collisions(metadata.get("labels") or {}, expression)):
            key, keys = next(iter(meet.items()))
            return f"its selector is rewritten, and the labels {' and '.join(keys)} both become {key}", _COLLISION
    return "the agent has not made any", _UNSHARED


def _is_ready(pod: Raw) -> bool:
    conditions = (pod.get("status") or {}).get("conditions")
    return not pod["metadata"].get("deletionTimestamp") and is_true(conditions, "Ready")


def _service_of(slice: Raw) -> tuple[str, str]:
    metadata = slice["metadata"]
    return metadata["namespace"], (metadata.get("labels") or {}).get(names.LABEL_SERVICE_NAME, "")


def _has_ready(slice: Raw) -> bool:
    endpoints = slice.get("endpoints") or ()
    return any((each.get("conditions") or {}).get("ready") is not False and each["addresses"] for each in endpoints)
