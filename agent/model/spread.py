"""Hard topology spread constraints of pods that stay in their cluster. Pure.

Virtual nodes have labels of their target such as `topology.kubernetes.io/region`, so that schedulers take each for a
domain. By default a constraint counts nodes whose taints a pod does not tolerate: a domain that stays empty then keeps
the other domains from getting more than `maxSkew` pods. With `nodeTaintsPolicy: Honor` such nodes do not count.
"""

from collections.abc import Iterable, Mapping
from typing import Any

Raw = dict[str, Any]

_HARD = "DoNotSchedule"
SPREAD_HARD = (
    "has(object.spec.topologySpreadConstraints) && object.spec.topologySpreadConstraints.exists(c,"
    " c.whenUnsatisfiable == 'DoNotSchedule' && !has(c.nodeTaintsPolicy))"
)
"""CEL: a constraint that counts nodes on which the pod cannot run, virtual ones among them."""


def counts_tainted(constraint: Mapping[str, Any]) -> bool:
    """Return True for a hard constraint that counts tainted nodes because its user has not chosen."""
    return constraint.get("whenUnsatisfiable") == _HARD and not constraint.get("nodeTaintsPolicy")


def honoring_taints(pod: Raw) -> Raw:
    """Return the pod with `nodeTaintsPolicy: Honor` in such constraints; the same object if there is none."""
    constraints = (pod.get("spec") or {}).get("topologySpreadConstraints") or ()
    if not any(map(counts_tainted, constraints)):
        return pod
    changed = [{**each, "nodeTaintsPolicy": "Honor"} if counts_tainted(each) else each for each in constraints]
    return {**pod, "spec": {**pod["spec"], "topologySpreadConstraints": changed}}


def affected_keys(spec: Mapping[str, Any], labels: Iterable[str]) -> list[str]:
    """Return the topology keys of such constraints in a pod's spec that virtual nodes have as labels."""
    carried = set(labels)
    constraints = spec.get("topologySpreadConstraints") or ()
    return sorted({each["topologyKey"] for each in constraints if counts_tainted(each)} & carried)
