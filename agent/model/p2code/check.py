"""What is wrong with an application, looked for in the order of P2CODE's scheduler, and its bundles. Pure."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from agent.api.names.p2code import ELECTED, WORKS
from agent.model.namespaces import not_enabled
from agent.model.p2code import detect, verdicts
from agent.model.p2code.annotations import Precedence, Wishes, is_filter, unsupported, wishes
from agent.model.p2code.bundles import Bundling, bundle
from agent.model.p2code.manifests import DEFAULT, InvalidManifest, Reading, objects, read, text, texts
from agent.model.p2code.verdicts import Verdict


@dataclass(frozen=True)
class World:
    """What there is beside the manifest itself."""

    sets: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Clusters by the ManagedClusterSets that they are in."""
    bound: Collection[str] = ()
    """Sets that are bound to the namespace of the manifest."""
    namespaces: Collection[str] = (DEFAULT,)
    """Those of this cluster."""
    disabled: Collection[str] = ()
    """Those of them whose pods stay in this cluster."""


@dataclass(frozen=True)
class Application:
    """A P2CodeSchedulingManifest that is as it should be."""

    wishes: Wishes
    reading: Reading
    bundling: Bundling


@dataclass(frozen=True)
class Draft:
    """What of it can be told without looking at anything else: only when it changes, this does."""

    wishes: Wishes
    annotated: Verdict | None
    """What is wrong with its global annotations."""
    application: Application | None
    manifested: Verdict | None
    """What is wrong with its manifests, or with the annotations of its workloads."""
    here: bool = True
    """Whether its manifests are applied in this cluster."""

    @property
    def namespaces(self) -> frozenset[str]:
        """Those that its manifests are in, none where these are not taken."""
        return self.application.reading.namespaces if self.application is not None else frozenset()

    @property
    def wrong(self) -> list[str]:
        """What of it is not taken, as its author is told."""
        return [each.message for each in (self.annotated, self.manifested) if each is not None]


def draft(spec: Mapping[str, Any], name: str, precedence: Precedence, distribution: str = ELECTED) -> Draft:
    """What the spec of a P2CodeSchedulingManifest of this name says."""
    here = distribution != WORKS
    common = texts(spec, "globalAnnotations")
    asked = wishes(common)
    annotated = None
    if (wrong := unsupported(common)) is not None:
        annotated = verdicts.unsupported_annotation(wrong)
    elif not asked.cluster_set:
        annotated = verdicts.MISSING_TARGET
    try:
        reading = read(objects(spec, "manifests"), here=here)
        _check_workloads(spec, reading)
        found = Application(asked, reading, bundle(spec, name, asked, reading, precedence))
    except InvalidManifest as error:
        return Draft(asked, annotated, None, verdicts.bad_manifest(str(error)), here)
    return Draft(asked, annotated, found, None, here)


def check(drafted: Draft, world: World) -> Verdict | Application:
    """The first thing that is wrong, or what it is about."""
    wrong = drafted.annotated or _of_clusters(drafted.wishes, world) or drafted.manifested
    if wrong is not None:
        return wrong
    assert drafted.application is not None
    homeless = _homeless(drafted.application.reading, world) if drafted.here else None
    return homeless or drafted.application


def _of_clusters(asked: Wishes, world: World) -> Verdict | None:
    clusters = world.sets.get(asked.cluster_set)
    if clusters is None:
        return verdicts.no_such_set(asked.cluster_set)
    if not clusters:
        return verdicts.empty_set(asked.cluster_set)
    if asked.cluster_set not in world.bound:
        return verdicts.unbound_set(asked.cluster_set)
    if asked.cluster and asked.cluster not in clusters:
        return verdicts.no_such_cluster(asked.cluster, asked.cluster_set)
    return None


def _check_workloads(spec: Mapping[str, Any], reading: Reading) -> None:
    for each in reading.workloads:
        detect.check(each)
    names = {each.name for each in reading.workloads}
    begin = "invalid workload annotation provided : "
    for index, entry in enumerate(objects(spec, "workloadAnnotations"), start=1):
        if not all(map(is_filter, texts(entry, "annotations"))):
            raise InvalidManifest(
                f"{begin}invalid workload annotations provided, all workload annotations must be of the form "
                "p2code.filter.feature=value"
            )
        name = text(entry, "name")
        if name not in names:
            raise InvalidManifest(
                f"{begin}invalid workload name for workload annotation {index}: cannot find a workload resource with "
                f"the name {name}"
            )


def _homeless(reading: Reading, world: World) -> Verdict | None:
    """P2CODE's scheduler asks for a manifest of every namespace; here one that exists needs none, but it is enabled."""
    for each in reading.manifests:
        if each.is_workload and each.namespace in world.disabled and each.namespace not in reading.made:
            why = not_enabled(each.namespace)
            return verdicts.bad_manifest(f"invalid manifest: {each.kind.lower()} {each.name}: {why}")
        if each.namespace and each.namespace not in world.namespaces and each.namespace not in reading.made:
            return verdicts.bad_manifest(
                f"invalid manifest: {each.kind.lower()} {each.name} is in the namespace {each.namespace}, which does "
                "not exist: add a manifest for it"
            )
    return None
