"""Objects whose annotations choose targets, as users name them: `deployment/web`, `ns/shop`."""

from collections.abc import Mapping
from typing import NamedTuple

import typer

from agent.api import names
from agent.api.kinds import CRON_JOBS, DEPLOYMENTS, JOBS, NAMESPACES, PODS, REPLICA_SETS, STATEFUL_SETS, Kind
from agent.api.names.moves import TARGETS
from agent.cli.fleet.completion import offered
from agent.cli.options import Failed
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.kube.store import Object

KEY, LONG_KEY = names.SHORT_PREFIX + TARGETS, names.PREFIX + TARGETS
_SHORT_NAMES = {
    DEPLOYMENTS: "deploy",
    STATEFUL_SETS: "sts",
    REPLICA_SETS: "rs",
    JOBS: "job",
    CRON_JOBS: "cj",
    NAMESPACES: "ns",
    PODS: "po",
}
_ABOVE = {REPLICA_SETS: DEPLOYMENTS}
"""Controllers that overrule an object of the key's kind."""


class InvalidName(ValueError):
    """Text that names no object with a choice of targets; the message lists the valid kinds."""


class Named(NamedTuple):
    """An object as the user has typed it."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.name} {self.name}"


def named(text: str) -> Named:
    """Parse KIND/NAME; accepts the kind in every form that kubectl accepts. Raises InvalidName."""
    typed, slash, name = text.partition("/")
    for kind, short in _SHORT_NAMES.items():
        words = (kind.plural, kind.name.lower())
        if typed.lower() in (short, *words, *(f"{word}.{kind.group}" for word in words if kind.group)):
            if slash and name and "/" not in name:
                return Named(kind, name)
            raise InvalidName(f"{text!r} names no object: write {kind.name.lower()}/NAME")
    kinds = ", ".join(kind.name.lower() for kind in _SHORT_NAMES)
    raise InvalidName(f"{text!r} is none of what says where pods may be: write KIND/NAME with one of {kinds}")


def object_names(context: typer.Context, incomplete: str) -> list[str]:
    """Return suggestions for shell completion: kinds first, then the objects of one."""
    typed, slash, beginning = incomplete.partition("/")
    if not slash:
        return [f"{each}/" for kind in _SHORT_NAMES if (each := kind.name.lower()).startswith(typed.lower())]
    try:
        kind = named(f"{typed}/x").kind
    except InvalidName:
        return []
    return [f"{typed}/{name}" for name in offered(context, beginning, kind)]


async def read(client: Client, what: Named, namespace: str) -> Object:
    """Read the object. Raises Failed if it does not exist or its controller overrules it; KubeError."""
    place = namespace if what.kind.namespaced else None
    try:
        found = Object(what.kind, await client.get_raw(what.kind, what.name, place))
    except NotFound:
        where = f" in namespace {namespace}; choose another by -n" if place else ""
        raise Failed(f"there is no {what}{where}") from None
    above = _ABOVE.get(what.kind)
    owner = found.controller
    if above is not None and owner is not None and (owner.group, owner.kind) == (above.group, above.name):
        speaks = f"{above.name.lower()}/{owner.name}"
        raise Failed(f"{above.name} {owner.name} speaks for {what}, which it makes: run `flotilla move {speaks}`")
    return found


def value_of(obj: Object) -> str | None:
    """Return the annotation that chooses targets, None without one."""
    annotations = obj.annotations
    return annotations.get(LONG_KEY, annotations.get(KEY))


def said(annotations: Mapping[str, str], value: str) -> dict[str, str]:
    """Return a copy of annotations with this choice of targets."""
    return {**{key: text for key, text in annotations.items() if key != LONG_KEY}, KEY: value}


async def write(client: Client, obj: Object, value: str) -> None:
    """Write the annotation, under one key only. Raises KubeError."""
    annotations: dict[str, str | None] = {KEY: value}
    if LONG_KEY in obj.annotations:
        annotations[LONG_KEY] = None
    # The UID guards against another object that has the same name by now.
    body = {"metadata": {"uid": obj.uid, "annotations": annotations}}
    await client.patch(obj.kind, obj.name, body, obj.namespace or None)
