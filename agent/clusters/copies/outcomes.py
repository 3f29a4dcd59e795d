"""What comes of applying objects for an owner, and of deleting them, in words for the author of their manifests."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from agent.api.kinds import MANIFEST_WORKS
from agent.api.names.p2code import DEFAULT_ACCOUNT
from agent.kube.errors import Forbidden, StatusError
from agent.model import applied
from agent.model.applied import Place


class Refusal(NamedTuple):
    """One object that is not as its manifest has it, and why: a sentence for the manifest's author.

    `passing`: another try may go better, without anybody doing anything. No name: all objects of the kind there.
    """

    kind: str
    namespace: str
    name: str
    message: str
    passing: bool = False


class Remaining(NamedTuple):
    """One object that is still there; `message` says what keeps it, empty if it is merely on its way."""

    kind: str
    namespace: str
    name: str
    message: str = ""


def refusal(place: Place, name: str, reason: str, *, passing: bool = False) -> Refusal:
    """Of an object in a place, or of all there."""
    kind, namespace = place.kind.name, place.namespace
    return Refusal(kind, namespace, name, f"{applied.title(kind, namespace, name)}: {reason}", passing)


def refused(manifest: Mapping[str, Any], reason: str) -> Refusal:
    """Of what may be no object at all."""
    given = manifest.get("metadata")
    metadata = given if isinstance(given, Mapping) else {}
    about = (str(manifest.get("kind") or ""), str(metadata.get("namespace") or ""), str(metadata.get("name") or ""))
    return Refusal(*about, f"{applied.title(*about)}: {reason}")


def words(error: StatusError, namespace: str, account: str) -> str:
    """The API server's, with what to do where it is we who may not act as this account of a namespace."""
    if "cannot impersonate" in str(error) and account == DEFAULT_ACCOUNT:
        return f"{error}; add the namespace {namespace} to agent.p2code.namespaces of the chart"
    if "cannot impersonate" in str(error):
        of = f"the service account {account} of the namespace {namespace}"
        return f"{error}; let the agent impersonate {of} by a Role and a RoleBinding there"
    if isinstance(error, Forbidden) and str(MANIFEST_WORKS) in str(error):
        return f"{error}; bind the account to the ClusterRole flotilla-p2code-works in the namespace of the cluster"
    return str(error)
