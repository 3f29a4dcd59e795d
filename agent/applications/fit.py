"""Check whether one pod of each new template fits into its cluster, by the scheduler's filters. Pure."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from agent.model.errors import InvalidPod
from agent.model.p2code.manifests import Manifest, at
from agent.model.p2code.verdicts import FAILED, Verdict
from agent.model.proxypod import proxy_pod
from agent.ranking.demand import kept_constraints, template_of
from agent.ranking.explain import without_figures
from agent.ranking.rank import rank
from agent.ranking.scores import Weights
from agent.ranking.snapshot import Amounts, PodInfo, PodTemplate, TargetInfo
from agent.ranking.usage import Usages

Raw = Mapping[str, Any]

REASON = "NotAllDecisionsScheduled"
_WEIGHTS = Weights()


@dataclass(frozen=True)
class Capacity:
    """Capacity of a target."""

    info: TargetInfo
    held: Amounts = field(default_factory=dict)
    """Requests of proxy pods bound to the target; empty if its Target sets no limits."""


Capacities = Callable[[str, str], Capacity | None]
"""Capacity of a ManagedCluster for pods of a namespace; None while its target is being connected."""


class Newcomer(NamedTuple):
    """A workload that its bundle's cluster does not have yet."""

    bundle: str
    cluster: str
    manifest: Manifest
    written: Raw
    """Rendered object that is applied."""


class Unfit(NamedTuple):
    """A workload whose pods do not fit, with the reason."""

    newcomer: Newcomer
    why: str

    def verdict(self, last: Verdict | None) -> Verdict:
        """Return the verdict; the last one if only figures have changed, since each change is a write."""
        bundle, cluster, manifest, _ = self.newcomer
        message = (
            f"No pod of {manifest.kind.lower()} {manifest.name} would run in the managed cluster {cluster}, which was "
            f"selected for workload {bundle}: {self.why}"
        )
        found = Verdict(FAILED, REASON, message)
        is_old = last is not None and last[:2] == found[:2]
        return last if last and is_old and without_figures(last.message) == without_figures(message) else found


def unfit(newcomers: Iterable[Newcomer], capacities: Capacities) -> Unfit | None:
    """Return the first workload whose pod does not fit in addition to those before it; None if all fit.

    :raises LookupError: while the capacity of a target is unknown
    """
    usages = Usages()
    for number, each in enumerate(newcomers):
        capacity = capacities(each.manifest.namespace, each.cluster)
        if capacity is None:
            raise LookupError(each.cluster)
        try:
            template = _template(each)
        except InvalidPod as error:
            return Unfit(each, str(error))
        except (AttributeError, KeyError, TypeError, ValueError):
            # The template is malformed: the API server refuses it with an exact message.
            continue
        info = capacity.info
        if capacity.held and usages.get(info.node_name) is None:
            usages.put(PodInfo(PodTemplate("", {}, {}, capacity.held), uid=info.node_name), info.node_name)
        pod = PodInfo(template, name=each.manifest.name, uid=f"{number}", labels=each.manifest.pod_labels)
        rejected = rank(pod, (info,), usages, _WEIGHTS).rejected
        if rejected:
            return Unfit(each, f"{info.title}: {rejected[0][1].message}")
        usages.put(pod, info.node_name, assumed=True)
    return None


def _template(newcomer: Newcomer) -> PodTemplate:
    """Return the scheduling requirements of the workload's proxy pods."""
    manifest = newcomer.manifest
    source = at(newcomer.written, *manifest.template_path)
    metadata = {**at(source, "metadata"), "namespace": manifest.namespace}
    pod: dict[str, Any] = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": dict(at(source, "spec"))}
    proxy = proxy_pod(pod, ())
    return template_of(manifest.namespace, proxy["spec"], kept_constraints(metadata.get("annotations"), pod["spec"]))
