"""Pods that run as a service account of a Source, and so with the source's rights: pure.

A kubelet requests new tokens for a pod as long as the pod exists. The API server issues them for the account that has
the name at that moment. So a pod that has outlived its account gets tokens of the next account.
"""

from collections.abc import Collection, Iterable, Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from agent.api.kinds import CHAPERONS
from agent.base.clock import parse
from agent.kube.store import Key, Object

GRACE_SECONDS = 30
"""Longest grace period of a pod of a revoked account, in seconds: its source could request years."""
_VOID_SECONDS = 120.0
"""Seconds after a pod's grace period until its tokens are void, also if its node never answers. The API server refuses
them after 60 s; the rest allows for clock differences."""
_SHARED_SECONDS = 60.0
"""Seconds between lists of pods while some run as the account."""
_EXCLUSIVE_SECONDS = 600.0
"""Seconds between lists of pods while none runs as the account. No watch reports new ones."""
_NAMED = 5
"""Most pods that a message names."""


class Occupant(NamedTuple):
    """A pod that has not ended and runs as an account."""

    name: str
    uid: str
    created: datetime
    ends: datetime | None = None
    """End of its grace period; None if it is not being deleted."""
    is_delegate: bool = False
    """Whether a PodChaperon controls it."""

    def is_void(self, now: datetime) -> bool:
        """Return True if the API server refuses all its tokens."""
        return self.ends is not None and self.ends + timedelta(seconds=_VOID_SECONDS) < now

    def may_run_on(self, now: datetime) -> bool:
        """Return True if it is not being deleted, or its grace period is too long."""
        return self.ends is None or self.ends > now + timedelta(seconds=GRACE_SECONDS)


class Account(NamedTuple):
    """A service account of a Source."""

    key: Key
    since: datetime | None
    """Time of its creation; None if it does not exist."""
    is_another: bool = False
    """Whether it has been recreated since this process first saw it. Earlier versions did not delete old pods."""
    is_foreign: bool = False
    """Whether it is in another namespace than the Source. Then its pods are neither deleted nor named."""


class Occupation(NamedTuple):
    """One account and the pods that run as it."""

    account: Account
    is_granted: bool
    """Whether a binding already grants it the rights."""
    pods: Sequence[Occupant] = ()

    def outlived(self, now: datetime) -> list[Occupant]:
        """Return the pods that have outlived their account and could still get a token."""
        since = self.account.since
        old = (pod for pod in self.pods if since is None or (self.account.is_another and pod.created < since))
        return [pod for pod in old if not pod.is_void(now)]

    def to_delete(self, now: datetime) -> list[Occupant]:
        """Return the delegates to delete: they have outlived their account, and are in the namespace of the Source.

        Other pods belong to users of this cluster.
        """
        if self.account.is_foreign:
            return []
        return [pod for pod in self.outlived(now) if pod.is_delegate and pod.may_run_on(now)]

    def must_wait(self, now: datetime) -> bool:
        """Return True if the account must not be created yet."""
        return self.account.since is None and bool(self.outlived(now))

    def withheld_for(self, now: datetime) -> list[Occupant]:
        """Return the pods that prevent the account's rights, since these pods would have the same rights.

        A source may orphan a delegate, delete the account and create it again. Any pod that has outlived an account
        counts for the next one, whatever controls it.
        """
        if self.account.since is not None and self.account.is_another and (old := self.outlived(now)):
            return old
        return [] if self.is_granted else [pod for pod in self.pods if pod.is_delegate and not pod.is_void(now)]

    def is_withheld(self, now: datetime) -> bool:
        """Return True if the account must not have rights yet."""
        return bool(self.withheld_for(now))

    def in_the_way(self, now: datetime) -> list[Occupant]:
        """Return the pods that prevent the creation of the account, or its rights."""
        return self.outlived(now) if self.must_wait(now) else self.withheld_for(now)


def occupant(pod: Object) -> Occupant:
    """Read a pod from its metadata."""
    metadata = pod.head.metadata
    return Occupant(
        pod.name,
        pod.uid,
        parse(metadata.creation_timestamp or ""),
        parse(metadata.deletion_timestamp) if metadata.deletion_timestamp else None,
        is_delegate(pod),
    )


def is_delegate(pod: Object) -> bool:
    """Return True if a PodChaperon controls a pod. Labels do not count: a source may change those of its delegates."""
    owner = pod.controller
    return owner is not None and (owner.kind, owner.group) == (CHAPERONS.name, CHAPERONS.group)


def obstacle(found: Iterable[Occupation], now: datetime) -> str:
    """Return a message why accounts are not created or get no rights, with the remedy; empty if no pod prevents it."""
    told = []
    for each in found:
        title, pods = f"ServiceAccount {'/'.join(each.account.key)}", _pods(each, each.in_the_way(now))
        if each.must_wait(now):
            remedy = (
                "delete these"
                if each.account.is_foreign
                else "those of PodChaperons are being deleted, delete the others"
            )
            told.append(
                f"{title} does not exist, and is created once no pod names it, since such a pod would get a token of"
                f" the new one: {pods}; {remedy}"
            )
        elif each.is_withheld(now):
            told.append(
                f"{title} gets no rights while pods of other clusters, or of the account before it, run as it, which"
                f" would have them too: {pods}; delete these, or name another account"
            )
    return "; ".join(told)


def is_ending(found: Iterable[Occupation], now: datetime) -> bool:
    """Return True if such a pod is being deleted, or is a delegate, which its source may delete at any time."""
    return any(
        pod.ends is not None or (pod.is_delegate and not each.account.is_foreign)
        for each in found
        for pod in each.in_the_way(now)
    )


def shared_with(found: Iterable[Occupation]) -> str:
    """Return a message about the pods that run as accounts of a Source, with the remedy; empty if none does."""
    return "; ".join(
        f"ServiceAccount {'/'.join(each.account.key)} is also that of {_pods(each, each.pods)}, with the source's"
        " rights: have what makes such pods name another account, and delete them"
        for each in found
        if each.pods
    )


def pause(found: Sequence[Occupation]) -> float | None:
    """Return the seconds until the next list of pods if none is ending; None without accounts whose pods count."""
    if not found:
        return None
    return _SHARED_SECONDS if any(each.pods for each in found) else _EXCLUSIVE_SECONDS


def _pods(found: Occupation, pods: Collection[Occupant]) -> str:
    """Return the number of pods; with the names of the first if they are in the namespace of the Source."""
    if found.account.is_foreign:
        return f"{len(pods)} pod{'s' if len(pods) > 1 else ''}"
    listed = ", ".join(sorted(pod.name for pod in pods)[:_NAMED])
    more = f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else ""
    return f"pod{'s' if len(pods) > 1 else ''} {listed}{more}"
