"""A manifest that is applied again over its proxy pod."""

from typing import Any

import pytest

from agent.api import names
from agent.model.proxypod import proxy_pod
from tests.model.pods import P, pod
from webhook.reapplied import restored

Raw = dict[str, Any]

REGION = "topology.kubernetes.io/region"
SPOT = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}
EXTRA = {"key": "extra", "operator": "Exists"}
DEFAULTS = pod()["spec"]["tolerations"]
DISKS = {"key": "disk", "operator": "In", "values": ["ssd"]}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [DISKS]}]}
    }
}
ZONES = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
MANIFEST: Raw = {
    "nodeSelector": {REGION: "eu"},
    "tolerations": [SPOT, *DEFAULTS],
    "affinity": AFFINITY,
    "topologySpreadConstraints": [ZONES],
    "schedulerName": "own-scheduler",
    "terminationGracePeriodSeconds": 5,
}
GOLD = '{"nodeSelector": {"tier": "gold"}, "tolerations": [{"operator": "Exists"}]}'
CONSTRAINTS = {P + "proxy-pod-scheduling-constraints": GOLD}
USED = {P + "use-constraints-from-spec-for-proxy-pod-scheduling": ""}


def proxy(annotations: dict[str, str] | None = None) -> Raw:
    return proxy_pod(pod(annotations, spec=MANIFEST), ())


def changed(old: Raw, **spec: Any) -> Raw:
    """Return the object with changed spec fields, as API servers return it; None removes a field."""
    merged = {**old["spec"], **spec}
    return {**old, "spec": {field: value for field, value in merged.items() if value is not None}}


def merged(old: Raw) -> Raw:
    """Merge as `kubectl apply` does without a schema: objects are merged, lists replaced."""
    selector = {**old["spec"]["nodeSelector"], **MANIFEST["nodeSelector"]}
    return {**MANIFEST, "nodeSelector": selector}


@pytest.mark.parametrize("annotations", [{}, CONSTRAINTS, USED], ids=["none", "constraints", "from the spec"])
@pytest.mark.parametrize("over", [merged, lambda old: MANIFEST], ids=["merged", "in their place"])
def test_a_manifest_that_is_applied_again_changes_nothing(annotations: dict[str, str], over: Any) -> None:
    old = proxy(annotations)
    new = changed(old, **over(old))
    assert new != old
    assert restored(old, new) == old


def test_what_does_not_change_what_the_webhook_wrote_is_left_alone() -> None:
    old = proxy()
    new = changed(old, activeDeadlineSeconds=60)
    assert restored(old, new) is new


def test_live_changes_come_through() -> None:
    old = proxy()
    containers = [{**old["spec"]["containers"][0], "image": "busybox:2"}]
    after = restored(old, changed(old, **MANIFEST, containers=containers, activeDeadlineSeconds=60))
    assert after == changed(old, containers=containers, activeDeadlineSeconds=60)


def test_a_toleration_that_a_manifest_has_got_is_added_once() -> None:
    old = proxy()
    added = restored(old, changed(old, tolerations=[SPOT, EXTRA, *DEFAULTS]))
    assert added["spec"]["tolerations"] == [*old["spec"]["tolerations"], EXTRA]
    again = restored(added, changed(added, tolerations=[SPOT, EXTRA, *DEFAULTS]))
    assert again == added


@pytest.mark.parametrize("annotations", [{}, USED], ids=["none", "from the spec"])
@pytest.mark.parametrize("field", ["tolerations", "topologySpreadConstraints"])
def test_of_more_than_anybody_needs_nothing_is_compared(field: str, annotations: dict[str, str]) -> None:
    """A user who may change a pod could otherwise force a quadratic comparison that takes many seconds."""
    made = {"tolerations": SPOT, "topologySpreadConstraints": ZONES}[field]
    many = [{**made, "key" if field == "tolerations" else "topologyKey": f"k{number}"} for number in range(101)]
    old = proxy_pod(pod(annotations, spec={**MANIFEST, field: many}), ())
    new = changed(old, **{field: many[::-1]})
    assert restored(old, new) is new


def test_tolerations_that_are_added_to_those_of_the_proxy_are_taken_as_they_are() -> None:
    old = proxy()
    new = changed(old, tolerations=[*old["spec"]["tolerations"], EXTRA])
    assert restored(old, new) == new


SECOND = changed(proxy(), tolerations=[*proxy()["spec"]["tolerations"], EXTRA])


@pytest.mark.parametrize(
    ("old", "field", "value"),
    [
        (proxy(), "terminationGracePeriodSeconds", 10),
        (proxy(), "schedulerName", "default-scheduler"),
        (proxy(), "nodeSelector", {names.PROVIDER_KEY: names.PROVIDER_VALUE, REGION: "us"}),
        (proxy(USED), "nodeSelector", {names.PROVIDER_KEY: names.PROVIDER_VALUE}),
        (proxy(), "tolerations", [*DEFAULTS]),
        (proxy(), "tolerations", None),
        (SECOND, "tolerations", [SPOT, *DEFAULTS]),
        (proxy(), "affinity", {"podAffinity": {}}),
        (proxy(USED), "affinity", None),
        (proxy(), "topologySpreadConstraints", [{**ZONES, "maxSkew": 2}]),
        (proxy(USED), "topologySpreadConstraints", None),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_change_of_ones_own_is_left_to_the_api_server(old: Raw, field: str, value: Any) -> None:
    """The change removes or replaces an entry, so the API server refuses the whole change."""
    after = restored(old, changed(old, **{field: value}))
    assert after["spec"].get(field) != old["spec"].get(field)
    if field != "tolerations":
        assert after["spec"].get(field) == value
    else:
        assert not all(each in after["spec"].get(field, ()) for each in old["spec"][field])


def test_a_selector_that_narrows_a_pod_with_scheduling_gates_is_taken() -> None:
    old = changed(proxy(), schedulingGates=[{"name": "example.com/queue"}])
    flavour = {**old["spec"]["nodeSelector"], "flavour": "spot"}
    new = changed(old, nodeSelector=flavour, schedulingGates=None)
    assert restored(old, new) == new


def test_constraints_on_the_same_topology_are_merged() -> None:
    given = {**ZONES, "maxSkew": 3}
    old = changed(proxy(), topologySpreadConstraints=[given, {**ZONES, "topologyKey": "host"}])
    over = [{**given, **ZONES}, old["spec"]["topologySpreadConstraints"][1]]
    assert restored(old, changed(old, topologySpreadConstraints=over)) == old
