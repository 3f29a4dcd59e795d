"""Validation of an application, in the order of P2CODE's scheduler, and its bundles. Pure."""

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
    """State outside the manifest that validation depends on."""

    sets: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Clusters by their ManagedClusterSets."""
    bound: Collection[str] = ()
    """Sets that are bound to the namespace of the manifest."""
    namespaces: Collection[str] = (DEFAULT,)
    """Namespaces of the local cluster."""
    disabled: Collection[str] = ()
    """Namespaces among them whose pods stay in the local cluster."""


@dataclass(frozen=True)
class Application:
    """A valid P2CodeSchedulingManifest."""

    wishes: Wishes
    reading: Reading
    bundling: Bundling


@dataclass(frozen=True)
class Draft:
    """Result of validation without outside state; it changes only with the manifest."""

    wishes: Wishes
    annotated: Verdict | None
    """Problem of its global annotations; None if they are valid."""
    application: Application | None
    manifested: Verdict | None
    """Problem of its manifests, or of its workloads' annotations; None if they are valid."""
    here: bool = True
    """Whether its manifests are applied in the local cluster."""

    @property
    def namespaces(self) -> frozenset[str]:
        """Namespaces of its manifests, empty if these are invalid."""
        return self.application.reading.namespaces if self.application is not None else frozenset()

    @property
    def wrong(self) -> list[str]:
        """Messages about all problems, for its author."""
        return [each.message for each in (self.annotated, self.manifested) if each is not None]


def draft(spec: Mapping[str, Any], name: str, precedence: Precedence, distribution: str = ELECTED) -> Draft:
    """Parse and validate the spec of a P2CodeSchedulingManifest of this name."""
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
    """Return the first problem, or the application if it is valid."""
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
    """Return a verdict for a missing or disabled namespace. P2CODE's scheduler requires a manifest of every
    namespace; Flotilla requires none for one that exists, but it has to be enabled."""
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
