"""Objects of a ManifestWork as its AppliedManifestWork records them: before and after they are created. Pure."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, NamedTuple

from agent.api.kinds import APPLIED_MANIFEST_WORKS, Kind
from agent.api.names.works import APPLIED_FINALIZER, EXECUTOR, HUB_VERSION
from agent.klusterlet.manifests import Identity, Meta
from agent.model import applied

Raw = dict[str, Any]


class Entry(NamedTuple):
    """A recorded object."""

    version: str
    """API version, without the group, in which it was written last."""
    uid: str = ""
    """UID; empty for an object that may have been created."""


Ledger = Mapping[Identity, Entry]


def applied_manifest_work(name: str, work: Raw, executor: str, agent_id: str, hub_hash: str) -> Raw:
    """Return the AppliedManifestWork of a ManifestWork, to be created."""
    metadata = work["metadata"]
    labels = {"labels": metadata["labels"]} if metadata.get("labels") else {}
    annotations = {HUB_VERSION: str(metadata.get("resourceVersion") or "")}
    annotations |= {EXECUTOR: executor} if executor else {}
    return {
        "apiVersion": APPLIED_MANIFEST_WORKS.api_version,
        "kind": APPLIED_MANIFEST_WORKS.name,
        "metadata": {"name": name, "finalizers": [APPLIED_FINALIZER], "annotations": annotations, **labels},
        "spec": {"hubHash": hub_hash, "agentID": agent_id, "manifestWorkName": metadata["name"]},
    }


def read(record: Raw) -> dict[Identity, Entry]:
    """Return the recorded objects."""
    return {
        Identity.of(each): Entry(str(each.get("version") or ""), str(each.get("uid") or ""))
        for each in (record.get("status") or {}).get("appliedResources") or ()
    }


def written(ledger: Ledger) -> list[Raw]:
    """Return the field `appliedResources`, sorted."""
    return [{**identity._asdict(), **entry._asdict()} for identity, entry in sorted(ledger.items())]


def intended(ledger: Ledger, wanted: Iterable[Meta]) -> dict[Identity, Entry]:
    """Return the ledger with objects that are about to be created."""
    return {**{each.identity: Entry(each.version) for each in wanted}, **ledger}


def removed(ledger: Ledger, wanted: Collection[Meta]) -> dict[Identity, Entry]:
    """Return recorded objects that no manifest describes any longer.

    The resource of a manifest is unknown while its kind is not served. It may then describe any recorded object with
    its API group, namespace and name, so these are kept.
    """
    identities = {each.identity for each in wanted}
    unknown = {(each.group, each.namespace, each.name) for each in wanted if not each.resource}
    return {
        identity: entry
        for identity, entry in ledger.items()
        if identity not in identities and (identity.group, identity.namespace, identity.name) not in unknown
    }


def kind_of(identity: Identity, entry: Entry) -> Kind:
    """Return the kind of a recorded object, with an empty name: the ledger has none, and requests need none."""
    return Kind(identity.group, entry.version, identity.resource, "", namespaced=bool(identity.namespace))


def title(identity: Identity) -> str:
    """Return a recorded object's name for messages."""
    resource = f"{identity.resource}.{identity.group}" if identity.group else identity.resource
    return applied.title(resource, identity.namespace, identity.name)
