"""Removal of Flotilla's own finalizer from Targets and their Secrets: part of `flotilla uninstall`.

For clusters in which another agent, such as Admiralty's, has taken over: it ignores this finalizer. A Target that still
has it, from a saved file or an agent that was uninstalled, would never be deleted, nor would its CRD.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from agent.api import names
from agent.api.kinds import DEPLOYMENTS, SECRETS, TARGET_KINDS, Kind
from agent.cli.options import Failed
from agent.kube.client import Client
from agent.kube.errors import Conflict, NotFound
from agent.targets.target import gather

Raw = dict[str, Any]

_AGENTS = "app.kubernetes.io/name=flotilla,app.kubernetes.io/component=agent"
_TRIES = 5


async def let_go(client: Client, say: Callable[[str], None]) -> None:
    """Remove the finalizer only. Raises Failed if an agent runs that would add it again, KubeError."""
    for deployment in await client.list(DEPLOYMENTS, labels=_AGENTS):
        if deployment["spec"].get("replicas", 1):
            where = f"{deployment['metadata']['namespace']}/{deployment['metadata']['name']}"
            raise Failed(
                f"Deployment {where} runs the agent, which puts the finalizer {names.FINALIZER_DRAIN} back at once:"
                " `helm uninstall` takes it off as well; or scale the Deployment to 0 first"
            )
    targets = [(kind, each) for kind in TARGET_KINDS for each in await _list(client, kind)]
    held = [(kind, each) for kind, each in targets if _is_held(each)]
    secrets = [(SECRETS, each) for each in await _secrets(client, [each for _, each in targets])]
    for kind, each in (*held, *secrets):
        await _release(client, kind, each)
    say(f"took {names.FINALIZER_DRAIN} off {_listed(held, 'Target')} and {_listed(secrets, 'Secret')}")


async def _secrets(client: Client, targets: list[Raw]) -> list[Raw]:
    """List Secrets with our label or finalizer, including Secrets that Targets name."""
    found = {_key(each): each for each in await client.list(SECRETS, labels=names.LABEL_TARGET_SECRET)}
    for namespace, name in {place for target in targets for place in _places(target)} - found.keys():
        with contextlib.suppress(NotFound):
            found[namespace, name] = await client.get(SECRETS, name, namespace)
    return [each for each in found.values() if _is_held(each) or names.LABEL_TARGET_SECRET in _labels(each)]


def _places(target: Raw) -> Iterator[tuple[str, str]]:
    place = gather.reference(target)
    if place is not None and place.secret[0]:
        yield place.secret


async def _release(client: Client, kind: Kind, obj: Raw) -> None:
    """Patch an object; retry if another writer changes it meanwhile."""
    for _ in range(_TRIES):
        metadata = obj["metadata"]
        rest = [name for name in metadata.get("finalizers") or () if name != names.FINALIZER_DRAIN]
        body: Raw = {"resourceVersion": metadata["resourceVersion"], "finalizers": rest or None}
        if kind == SECRETS:
            body["labels"] = {names.LABEL_TARGET_SECRET: None}
        try:
            await client.patch(kind, metadata["name"], {"metadata": body}, metadata.get("namespace"))
        except NotFound:
            return
        except Conflict:
            try:
                obj = await client.get(kind, metadata["name"], metadata.get("namespace"))
            except NotFound:
                return
        else:
            return
    raise Failed(f"somebody else keeps changing {kind} {'/'.join(_key(obj))}: try again")


async def _list(client: Client, kind: Kind) -> list[Raw]:
    try:
        return await client.list(kind)
    except NotFound:
        # Its CRD has been deleted already.
        return []


def _is_held(obj: Raw) -> bool:
    return names.FINALIZER_DRAIN in (obj["metadata"].get("finalizers") or ())


def _labels(obj: Raw) -> Raw:
    labels: Raw = obj["metadata"].get("labels") or {}
    return labels


def _key(obj: Raw) -> tuple[str, str]:
    return obj["metadata"].get("namespace", ""), obj["metadata"]["name"]


def _listed(objects: list[tuple[Kind, Raw]], noun: str) -> str:
    return f"{len(objects)} {noun}{'' if len(objects) == 1 else 's'}"
