"""flotilla upgrade: the hook that `helm upgrade` runs first, so that existing sources keep their rights.

The ClusterRole of sources once contained the rules of all features. Its subjects are bound to the roles of the features
as well, before the chart removes these rules from it.
"""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from agent.api import names
from agent.api.kinds import CLUSTER_ROLE_BINDINGS, CLUSTER_ROLES, ROLE_BINDINGS, Kind
from agent.api.roles import FEATURES, NAMED_FEATURES, SOURCE_ROLE, feature_role
from agent.cli.checks.rights import missing
from agent.cli.options import Context, Kubeconfig, finish
from agent.kube import config
from agent.kube.client import Client
from agent.kube.errors import AlreadyExists, NotFound
from agent.kube.session import Session

Raw = dict[str, Any]

BINDINGS = (ROLE_BINDINGS, CLUSTER_ROLE_BINDINGS)


async def keep_rights(client: Client, say: Callable[[str], None]) -> None:
    """Bind subjects of the role of sources also to the roles of the features that it still contains.

    Does nothing if the role contains no rules of features. Raises KubeError.
    """
    try:
        role = await client.get(CLUSTER_ROLES, SOURCE_ROLE)
    except NotFound:
        return
    features = held(role)
    if not features:
        say(f"ClusterRole {SOURCE_ROLE} holds no rules of features: nothing to do")
        return
    for kind in BINDINGS:
        for binding in await client.list(kind):
            for companion in companions(kind, binding, features):
                with contextlib.suppress(AlreadyExists):
                    await client.create(kind, companion)
                    say(f"{kind.name} {companion['metadata']['name']} made for {binding['metadata']['name']}")


def held(role: Raw) -> list[str]:
    """Return features for which the role has any rule, without features that a Source must name."""
    lacking = set(missing(role.get("rules") or ()))
    found = (name for name, grants in FEATURES.items() if not lacking.issuperset(grants))
    return [name for name in found if name not in NAMED_FEATURES]


def companions(kind: Kind, binding: Raw, features: list[str]) -> Iterator[Raw]:
    """Return bindings of the same subjects to the roles of features; none for a binding to another role."""
    reference = binding["roleRef"]
    if (reference["kind"], reference["name"]) != (CLUSTER_ROLES.name, SOURCE_ROLE):
        return
    kept = ("namespace", "labels", "annotations", "ownerReferences")
    metadata = {key: value for key, value in binding["metadata"].items() if key in kept}
    for feature in features:
        yield {
            "apiVersion": kind.api_version,
            "kind": kind.name,
            "metadata": {**metadata, "name": _name(binding, feature)},
            "roleRef": {**reference, "name": feature_role(SOURCE_ROLE, feature)},
            "subjects": binding.get("subjects") or [],
        }


def _name(binding: Raw, feature: str) -> str:
    """Return a binding's name: that of the agent for a Source's binding, else one derived from the binding."""
    metadata = binding["metadata"]
    source = (metadata.get("annotations") or {}).get(names.ANNOTATION_SOURCE, "")
    namespace, slash, name = source.partition("/")
    if slash and names.LABEL_SOURCE in (metadata.get("labels") or {}):
        return names.feature_binding(namespace, name, feature)
    return names.join(names.LONG_LIMIT, (metadata["name"], feature), constant=(1,))


def upgrade(kubeconfig: Kubeconfig = "", context: Context = "") -> None:
    """Keep the rights of sources that are there through an upgrade of the chart; `helm upgrade` runs this first."""

    async def run() -> None:
        async with Session(config.load(kubeconfig or None, context or None)) as session:
            await keep_rights(Client(session), lambda text: print(text, flush=True))

    finish(run())
