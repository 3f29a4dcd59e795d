"""Explanation of a P2CODE application: its bundles, their clusters and scores, calls, and missing manifests."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import msgspec

from agent.api import names
from agent.api.conditions import condition_of
from agent.api.kinds import MANIFEST_WORKS, PLACEMENT_DECISIONS, SCHEDULING_MANIFESTS, SERVICES
from agent.api.names.ocm import LABEL_PLACEMENT, decision_label
from agent.api.names.p2code import ANNOTATION_APPLIED_KINDS, DISTRIBUTION, ELECTED, WORKS, bundle_placement
from agent.cli.fleet.units import NOTHING
from agent.cli.options import Failed
from agent.cli.output import as_table
from agent.cli.placements.queries import as_far, listed, name_of
from agent.kube.client import Client
from agent.kube.errors import NotFound
from agent.model.abridged import abridged
from agent.model.p2code import linked, progress
from agent.model.p2code.bundles import Bundle
from agent.model.p2code.check import Draft, draft
from agent.model.p2code.detect import Book, Services, calls, ports
from agent.model.p2code.manifests import objects, text
from agent.model.p2code.status import CALLS_KNOWN, OVERRIDDEN, decided, observed, said
from agent.settings import Settings

Raw = Mapping[str, Any]

_SHOWN = 6
_UNSURE = (
    "of filters that are global and a workload's own, the global ones are shown: if the agent has another precedence,"
    " give --agent-flag=--tuning=p2code-precedence=and"
)


class BundleLine(msgspec.Struct, frozen=True):
    """Manifests that are placed together."""

    name: str
    cluster: str
    """Empty if no cluster has been decided."""
    score: int | None
    why: str
    """Reason in the Placement's decision."""
    filters: Sequence[str]
    manifests: Sequence[str]
    calls: Sequence[str]
    missing: Sequence[str]


class ApplicationExplanation(msgspec.Struct, frozen=True):
    """The application, and the last status that the agent has published."""

    namespace: str
    name: str
    state: str
    reason: str
    message: str
    current: bool
    """Whether the status is about the current spec."""
    wrong: Sequence[str]
    """Annotations and manifests that are not supported."""
    bundles: Sequence[BundleLine]
    not_applied: Sequence[str]
    distribution: str = ELECTED
    """Method by which its bundles are distributed to their clusters."""
    conditions: Sequence[str] = ()
    """Conditions of the application about its pods and links."""
    notes: Sequence[str] = ()


async def read_application(client: Client, namespace: str, name: str) -> tuple[Raw, Sequence[Raw], Services, list[str]]:
    """Read the P2CodeSchedulingManifest, PlacementDecisions, Services that it may call, and notes.

    The notes list the objects that could not be read. Raises Failed.
    """
    try:
        psm: Raw = await client.get(SCHEDULING_MANIFESTS, name, namespace)
    except NotFound:
        try:
            there = listed(map(name_of, await client.list(SCHEDULING_MANIFESTS, namespace)))
        except NotFound:
            raise Failed(
                f"this cluster does not serve {SCHEDULING_MANIFESTS}: install Flotilla in it with"
                " `--set agent.p2code.enabled=true`, or choose another cluster by --context"
            ) from None
        raise Failed(f"there is no P2CodeSchedulingManifest {namespace}/{name} (there is: {there})") from None
    notes: list[str] = []
    decisions = await as_far(client, PLACEMENT_DECISIONS, notes, "scores are not known", namespace)
    live = {}
    for where in sorted({text(each, "metadata", "namespace") for each in objects(psm, "spec", "manifests")} - {""}):
        lost = f"calls of Services in namespace {where} are not known"
        for each in await as_far(client, SERVICES, notes, lost, where):
            live[where, name_of(each)] = ports(each)
    return psm, decisions, live, notes


def explanation_of(
    psm: Raw,
    decisions: Iterable[Raw],
    live: Services | None = None,
    notes: Sequence[str] = (),
    settings: Settings | None = None,
) -> ApplicationExplanation:
    """Explain an application. `live` are the Services in its namespaces. Pure."""
    metadata, last = psm["metadata"], said(psm)
    settings = settings or Settings()
    distribution = _distribution(psm, settings)
    found, unsure = _draft(psm, distribution, settings)
    by_label = {(each["metadata"].get("labels") or {}).get(LABEL_PLACEMENT): each for each in decisions}
    clusters = {each.workload: each.cluster for each in decided(psm)}
    bundling = found.application.bundling if found.application is not None else None
    book = Book(found.application.reading.manifests, live or {}) if found.application is not None else None

    def line(bundle: Bundle) -> BundleLine:
        of_placement = _first_decision(by_label.get(decision_label(bundle_placement(bundle.name, metadata["name"]))))
        workload = bundle.manifests[0] if bundling is not None and bundling.mode == "workloads" else None
        called = calls(workload, book) if workload is not None and book is not None else ()
        return _line(bundle, clusters.get(bundle.name, ""), of_placement, map(str, called))

    return ApplicationExplanation(
        namespace=metadata["namespace"],
        name=metadata["name"],
        state=last.state if last is not None else "",
        reason=last.reason if last is not None else "",
        message=last.message if last is not None else "",
        current=observed(psm),
        wrong=found.wrong,
        bundles=[line(each) for each in bundling.bundles] if bundling is not None else [],
        not_applied=bundling.orphans if bundling is not None else (),
        distribution=distribution,
        conditions=list(_conditions(psm)),
        notes=[*notes, *unsure],
    )


def _draft(psm: Raw, distribution: str, settings: Settings) -> tuple[Draft, list[str]]:
    """Draft the application with the agent's precedence, from its status or the flag; add a note if unsure."""
    spec, name = psm.get("spec") or {}, psm["metadata"]["name"]
    found = draft(spec, name, settings.p2code_precedence, distribution)
    bundles = found.application.bundling.bundles if found.application is not None else ()
    if not any(bundle.overridden for bundle in bundles) or condition_of(psm, OVERRIDDEN) is not None:
        return found, []
    # An agent that overrides reports that with every decision.
    if observed(psm) and decided(psm):
        return draft(spec, name, "and", distribution), []
    return found, [_UNSURE]


def _line(bundle: Bundle, cluster: str, of_placement: Raw, called: Iterable[str]) -> BundleLine:
    return BundleLine(
        name=bundle.name,
        cluster=cluster or str(of_placement.get("clusterName", "")),
        score=of_placement.get("score"),
        why=str(of_placement.get("reason") or ""),
        filters=[str(each) for each in bundle.filters],
        manifests=[str(each.identity) for each in bundle.manifests],
        calls=list(called),
        missing=[f"{each.kind} {each.name}" for each in bundle.absent],
    )


def _first_decision(decision: Raw | None) -> Raw:
    told: Raw = next(iter(((decision or {}).get("status") or {}).get("decisions") or ()), {})
    return told


def _distribution(psm: Raw, settings: Settings) -> str:
    """Return the distribution from the annotation, else from the applied kinds, else from the agent's flag."""
    annotations = psm["metadata"].get("annotations") or {}
    kind = f"{MANIFEST_WORKS.name}.{MANIFEST_WORKS.group}/"
    is_sent = any(each.startswith(kind) for each in annotations.get(ANNOTATION_APPLIED_KINDS, "").split(","))
    return names.annotation(annotations, DISTRIBUTION) or (WORKS if is_sent else settings.p2code_distribution)


def _conditions(psm: Raw) -> Iterator[str]:
    for type in (progress.READY, progress.CANNOT_MOVE, linked.READY, CALLS_KNOWN):
        message = (condition_of(psm, type) or {}).get("message")
        if message:
            yield f"{type}: {message}"


def as_text(explanation: ApplicationExplanation, *, terminal: bool) -> str:
    """Return heading, table of bundles, manifests that are not applied, and notes. Pure."""
    blocks = ["\n".join(_heading(explanation))]
    if explanation.bundles:
        heads = ["BUNDLE", "CLUSTER", "SCORE", "FILTERS", "MANIFESTS", "CALLS", "MISSING"]
        rows = [
            [
                each.name,
                each.cluster or NOTHING,
                NOTHING if each.score is None else f"{each.score} ({each.why})" if each.why else str(each.score),
                _few(each.filters),
                _few(each.manifests),
                _few(each.calls),
                _few(each.missing),
            ]
            for each in explanation.bundles
        ]
        blocks.append(as_table((heads, rows), terminal=terminal))
    if explanation.not_applied:
        blocks.append(f"Not applied, for no workload refers to it: {', '.join(explanation.not_applied)}")
    if explanation.notes:
        blocks.append("\n".join(f"Note: {note}" for note in explanation.notes))
    return "\n\n".join(blocks)


def _heading(explanation: ApplicationExplanation) -> Iterator[str]:
    what = f"P2CodeSchedulingManifest {explanation.namespace}/{explanation.name}"
    if not explanation.state:
        yield f"{what}: nobody has looked at it yet: see that the agent runs with agent.p2code.enabled"
    else:
        yield f"{what}: {explanation.state}" + ("" if explanation.current else ", of an earlier spec")
        yield f"  {explanation.reason}: {explanation.message}"
    if explanation.distribution == WORKS:
        yield "  Its manifests are distributed as ManifestWorks, one for each bundle, in the namespace of its cluster"
    yield from (f"  {each}" for each in explanation.conditions)
    yield from (f"  Wrong: {each}" for each in explanation.wrong)


def _few(names: Sequence[str]) -> str:
    return abridged(names, _SHOWN) if names else NOTHING
