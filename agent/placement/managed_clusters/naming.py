"""Match Targets with ManagedClusters, and name the ManagedClusters that the agent creates. Pure.

Each cluster has one ManagedCluster, even if it has several Targets. A ManagedCluster that another controller or a user
created for a cluster is used unchanged.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from agent.api.names import SHORT_LIMIT
from agent.api.names.ocm import CLAIM_ID, LOCAL_CLUSTER, MANAGED_CLUSTER

Key = tuple[str, str]

_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_HASH_LENGTH = 10


class Lead(msgspec.Struct, frozen=True):
    """A Target with a known cluster; the key of a ClusterTarget has an empty namespace."""

    key: Key
    uid: str
    """UID of the cluster. Empty if the cluster reports none; the Target then counts as a separate cluster."""
    asked: str = ""
    """Name of the ManagedCluster by annotation; empty without one."""
    is_self: bool = False


class Known(msgspec.Struct, frozen=True):
    """An existing ManagedCluster."""

    name: str
    claim: str = ""
    """Value of its claim id.k8s.io; empty without one."""
    ours: bool = False
    """True if the agent created it."""
    uid: str = ""
    """UID of the cluster that the agent created it for; empty unless `ours`."""


class Found(msgspec.Struct, frozen=True):
    """The ManagedCluster of a Target; without a name, the reason and message why it has none."""

    name: str = ""
    ours: bool = False
    """True if the agent creates and updates it."""
    reason: str = ""
    message: str = ""


def consume(leads: Iterable[Lead], known: Iterable[Known]) -> dict[Key, Found]:
    """Return the ManagedCluster of each Target if another controller creates ManagedClusters."""
    groups = _by_cluster(leads)
    found = _match(groups, list(known))
    return _spread(groups, [each or _not_found(group) for group, each in zip(groups, found, strict=True)])


def serve(leads: Iterable[Lead], known: Iterable[Known]) -> dict[Key, Found]:
    """Return the ManagedCluster of each Target if the agent creates missing ones."""
    groups, there = _by_cluster(leads), list(known)
    found = _match(groups, [each for each in there if not each.ours])
    taken = {each.name for each in there if not each.ours}
    for step in (_asked, _kept, _new):
        step(groups, found, taken, there)
    return _spread(groups, [each or _taken(group) for group, each in zip(groups, found, strict=True)])


Group = Sequence[Lead]
Partly = list[Found | None]


def _by_cluster(leads: Iterable[Lead]) -> list[Group]:
    groups: dict[Key | str, list[Lead]] = {}
    for lead in sorted(leads, key=lambda lead: lead.key):
        groups.setdefault(lead.uid or lead.key, []).append(lead)
    return list(groups.values())


def _spread(groups: Sequence[Group], found: Sequence[Found]) -> dict[Key, Found]:
    return {lead.key: each for group, each in zip(groups, found, strict=True) for lead in group}


def _asked_by(group: Group) -> str:
    """Return the name that annotations ask for; of ClusterTargets only, if the cluster has any.

    A user of one namespace must not rename a ManagedCluster that all namespaces share.
    """
    cluster_wide = [lead for lead in group if not lead.key[0]]
    return next((lead.asked for lead in cluster_wide or group if lead.asked), "")


def _match(groups: Sequence[Group], others: Sequence[Known]) -> Partly:
    """Match foreign ManagedClusters by annotation, by claim, or by name if no claim contradicts."""
    by_name = {each.name: each for each in others}
    by_claim = {each.claim: each for each in sorted(others, key=lambda each: each.name, reverse=True) if each.claim}
    found: Partly = [None] * len(groups)
    for index, group in enumerate(groups):
        asked = _asked_by(group)
        match = by_name.get(asked) if asked else by_claim.get(group[0].uid)
        found[index] = Found(match.name) if match is not None else None
    matched = {each.name for each in found if each is not None}
    called = [_called(group, by_name, matched) if not found[index] else "" for index, group in enumerate(groups)]
    several = Counter(called)
    return [
        each or (Found(name) if name and several[name] == 1 else None) for each, name in zip(found, called, strict=True)
    ]


def _called(group: Group, by_name: Mapping[str, Known], matched: Iterable[str]) -> str:
    """Return the unmatched ManagedCluster with the name of a Target or `local-cluster`; empty if there is none."""
    if _asked_by(group):
        return ""
    own = [LOCAL_CLUSTER] if any(lead.is_self for lead in group) else []
    for name in (*own, *(lead.key[1] for lead in group)):
        each = by_name.get(name)
        if each is not None and name not in matched and each.claim in ("", group[0].uid):
            return name
    return ""


def _asked(groups: Sequence[Group], found: Partly, taken: set[str], there: Sequence[Known]) -> None:
    """Assign names from annotations, unless another cluster has the name and does not ask for a different one."""
    asks = {group[0].uid: _asked_by(group) for group in groups if group[0].uid}
    held = {each.name: each.uid for each in there if each.ours and asks.get(each.uid) in ("", each.name)}
    for index, group in enumerate(groups):
        asked = _asked_by(group)
        if found[index] is None and asked and held.get(asked, group[0].uid) != group[0].uid:
            found[index] = _taken(group)
        elif found[index] is None and asked:
            found[index] = _invalid(group) if not is_label(asked) else _taken(group) if asked in taken else _make(asked)
            taken.add(asked)


def _kept(groups: Sequence[Group], found: Partly, taken: set[str], there: Sequence[Known]) -> None:
    """Keep the names of ManagedClusters that the agent has created."""
    made = {each.uid: each.name for each in sorted(there, key=lambda each: each.name, reverse=True) if each.ours}
    for index, group in enumerate(groups):
        name = made.get(group[0].uid) if group[0].uid else None
        if found[index] is None and name is not None and name not in taken:
            found[index] = _make(name)
            taken.add(name)


def _new(groups: Sequence[Group], found: Partly, taken: set[str], there: Sequence[Known]) -> None:
    """Assign the names of Targets, with their namespace if two clusters would share a name."""
    without = [index for index, each in enumerate(found) if each is None]
    wished = {index: _wish(groups[index]) for index in without}
    several = Counter(wished.values())
    for index in without:
        namespace, name = groups[index][0].key
        wish = wished[index]
        if wish in taken or (namespace and several[wish] > 1 and wish != LOCAL_CLUSTER):
            wish = shortened(f"{namespace}-{name}") if namespace else ""
            wish = shortened(f"{namespace}/{name}") if wish in taken else wish
        if wish and wish not in taken:
            found[index] = _make(wish)
            taken.add(wish)


def _wish(group: Group) -> str:
    return LOCAL_CLUSTER if any(lead.is_self for lead in group) else shortened(group[0].key[1])


def candidates(key: Key) -> tuple[str, ...]:
    """Return the possible names of a Target's ManagedCluster without an annotation."""
    namespace, name = key
    with_namespace = (shortened(f"{namespace}-{name}"), shortened(f"{namespace}/{name}")) if namespace else ()
    return (shortened(name), *with_namespace)


def shortened(name: str) -> str:
    """Return a name that is also valid for a namespace: no dots, at most 63 characters, with a hash if changed."""
    if is_label(name):
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_LENGTH]
    plain = name.replace(".", "-").replace("/", "-")
    return f"{plain[: SHORT_LIMIT - _HASH_LENGTH - 1].rstrip('-')}-{digest}"


def is_label(name: str) -> bool:
    """Return True if a name is valid for a namespace."""
    return len(name) <= SHORT_LIMIT and bool(_LABEL.fullmatch(name))


def _make(name: str) -> Found:
    return Found(name, ours=True)


def _invalid(group: Group) -> Found:
    message = (
        f"annotation {MANAGED_CLUSTER}: {_asked_by(group)[:SHORT_LIMIT]!r} is no name of a ManagedCluster: at most 63"
        " lower case letters, digits and dashes, the first and the last no dash"
    )
    return Found(reason="InvalidName", message=message)


def _taken(group: Group) -> Found:
    name = _asked_by(group) or _wish(group)
    message = f"ManagedCluster {name} stands for another cluster: annotate this one {MANAGED_CLUSTER} with another name"
    return Found(reason="NameTaken", message=message)


def _not_found(group: Group) -> Found:
    asked = _asked_by(group)
    if asked:
        message = f"annotation {MANAGED_CLUSTER} names ManagedCluster {asked}, which does not exist"
    else:
        uid = f" has the claim {CLAIM_ID} {group[0].uid} or" if group[0].uid else ""
        message = (
            f"no ManagedCluster{uid} is called {group[0].key[1]}, without being that of another Target: no Placement"
            f" leads there until it is annotated {MANAGED_CLUSTER}"
        )
    return Found(reason="NotFound", message=message)
