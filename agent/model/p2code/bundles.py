"""Bundles of an application: manifests that are placed together, and required claims of their clusters. Pure."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from agent.api.names.p2code import cut
from agent.model.p2code.ancillaries import Absent, belongings
from agent.model.p2code.annotations import Filter, Override, Precedence, Wishes, combined, filters
from agent.model.p2code.following import Following, in_application, of_bundle
from agent.model.p2code.index import Index
from agent.model.p2code.manifests import Identity, InvalidManifest, Manifest, Reading, objects, text, texts

BUNDLED = 50_000
"""Maximum number of objects in all bundles of an application."""

Mode = Literal["cluster", "default", "global", "workloads"]


class Bundle(NamedTuple):
    """Manifests that are placed in one cluster."""

    name: str
    """Name in decisions."""
    manifests: tuple[Manifest, ...]
    filters: tuple[Filter, ...] = ()
    absent: tuple[Absent, ...] = ()
    """Objects that its workload refers to and no manifest defines."""
    overridden: tuple[Override, ...] = ()
    following: Mapping[Identity, Following] = MappingProxyType({})
    """Objects that follow pods, by workload."""


class Bundling(NamedTuple):
    """All bundles of an application."""

    mode: Mode
    bundles: tuple[Bundle, ...]
    orphans: tuple[str, ...]
    """Objects in no bundle, and duplicates; the first object of several takes precedence."""


def bundle(spec: Mapping[str, Any], name: str, asked: Wishes, reading: Reading, precedence: Precedence) -> Bundling:
    """Return the bundles of a P2CodeSchedulingManifest of this name, with valid annotations."""
    duplicates = tuple(f"{each.identity} (a second time)" for each in reading.duplicates)
    entries = objects(spec, "workloadAnnotations")
    if asked.cluster or not entries:
        mode: Mode = "cluster" if asked.cluster else "global" if asked.filters else "default"
        called, wanted = (name, ()) if asked.cluster else (mode, asked.filters)
        index = Index(reading.manifests)
        follow = {each.identity: in_application(each, index) for each in reading.workloads}
        return Bundling(mode, (Bundle(called, reading.manifests, wanted, following=follow),), duplicates)
    own = {text(each, "name"): filters(texts(each, "annotations")) for each in entries}
    index, found, count = Index(reading.manifests), [], 0
    workloads = [*reading.workloads]
    for called, workload in _called(workloads):
        wanted, overridden = combined(asked.filters, own.get(workload.name, ()), precedence)
        belonging = belongings(workload, index)
        together = tuple(dict.fromkeys((workload, *belonging.manifests)))
        count += len(together)
        if count > BUNDLED:
            raise InvalidManifest(
                f"invalid manifest: spec.manifests: the bundles of its workloads have more than {BUNDLED} objects, "
                "each counted in every bundle that has it: split the application"
            )
        follow = {workload.identity: of_bundle(workload, belonging.manifests, apart=len(workloads) > 1)}
        found.append(Bundle(called, together, wanted, belonging.absent, overridden, follow))
    bundled = {each for one in found for each in one.manifests}
    orphans = tuple(str(each.identity) for each in reading.manifests if each not in bundled)
    return Bundling("workloads", tuple(found), orphans + duplicates)


def _called(workloads: Sequence[Manifest]) -> Iterator[tuple[str, Manifest]]:
    """Yield a unique name for each workload: its name, extended if other workloads have it, too."""
    names = Counter(each.name for each in workloads)
    kinds = Counter((each.name, each.kind) for each in workloads)
    taken = {each.name for each in workloads if names[each.name] == 1}
    for each in workloads:
        found = each.name
        if names[each.name] > 1:
            found = f"{each.name}-{each.kind.lower()}"
            if kinds[each.name, each.kind] > 1:
                found += f"-{each.namespace}"
            if found in taken:
                found = _unmistakable(each.identity)
            taken.add(found)
        yield found, each


def _unmistakable(identity: Identity) -> str:
    """Return a name so long that `cut` adds a digest of all of it."""
    whole = f"{identity.name}-{identity.kind.lower()}-{identity.namespace}-{identity.group}"
    return cut(whole.ljust(64, "-"))
