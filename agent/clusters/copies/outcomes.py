"""Results of applying and deleting objects for an owner, as sentences for the author of the manifests."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from agent.api.kinds import MANIFEST_WORKS
from agent.api.names.p2code import DEFAULT_ACCOUNT
from agent.kube.errors import Forbidden, StatusError
from agent.model import applied
from agent.model.applied import Place


class Refusal(NamedTuple):
    """Object that differs from its manifest, and the reason as a sentence for the manifest's author.

    `passing`: another try may succeed without any change by the user. Empty name: all objects of the kind in
    the namespace.
    """

    kind: str
    namespace: str
    name: str
    message: str
    passing: bool = False


class Remaining(NamedTuple):
    """Object that still exists. `message` names the obstacle; empty if the object is just being deleted."""

    kind: str
    namespace: str
    name: str
    message: str = ""


def refusal(place: Place, name: str, reason: str, *, passing: bool = False) -> Refusal:
    """Return the refusal of one object in a place, or (empty name) of all objects in it."""
    kind, namespace = place.kind.name, place.namespace
    return Refusal(kind, namespace, name, f"{applied.title(kind, namespace, name)}: {reason}", passing)


def refused(manifest: Mapping[str, Any], reason: str) -> Refusal:
    """Return the refusal of a manifest that may not describe an object at all."""
    given = manifest.get("metadata")
    metadata = given if isinstance(given, Mapping) else {}
    about = (str(manifest.get("kind") or ""), str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
    return Refusal(*about, f"{applied.title(*about)}: {reason}")


def words(error: StatusError, namespace: str, account: str) -> str:
    """Return the API server's message, with a remedy if the agent may not impersonate this account."""
    if "cannot impersonate" in str(error) and account == DEFAULT_ACCOUNT:
        return f"{error}; add the namespace {namespace} to agent.p2code.namespaces of the chart"
    if "cannot impersonate" in str(error):
        of = f"the service account {account} of the namespace {namespace}"
        return f"{error}; let the agent impersonate {of} by a Role and a RoleBinding there"
    if isinstance(error, Forbidden) and str(MANIFEST_WORKS) in str(error):
        return f"{error}; bind the account to the ClusterRole flotilla-p2code-works in the namespace of the cluster"
    return str(error)
