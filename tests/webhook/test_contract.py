"""The wire contract on a real API server: each key that the webhook reads or writes, and each step of its work."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from agent.api.kinds import CLUSTER_TARGETS, PODS, TARGETS
from agent.api.names import finalizer
from agent.kube.errors import Invalid
from agent.model.proxypod import is_proxy, source_pod
from tests.webhook.replica import Place, Raw, elected, pod
from tests.webhook.test_app import target

pytestmark = pytest.mark.cluster

LONG = "multicluster.admiralty.io/"
SHORT = "multicluster/"
PREFIXES = [pytest.param(LONG, id="long"), pytest.param(SHORT, id="short")]

HAS_FINALIZER = LONG + "has-finalizer"
MARKS = {LONG + "elect", "team", LONG + "sourcepod-manifest", SHORT + "created-by"}
STALE = {LONG + "gone", LONG + "multiclusterForegroundDeletion"}
PROVIDER = {"virtual-kubelet.io/provider": "admiralty"}
TOLERATIONS = [
    {"key": "virtual-kubelet.io/provider", "value": "admiralty"},
    {"key": "node.kubernetes.io/network-unavailable", "operator": "Exists"},
    {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"},
    {"key": "node.kubernetes.io/unreachable", "operator": "Exists", "effect": "NoExecute"},
]
OF_THE_USER = {"key": "gpu", "operator": "Exists", "effect": "NoSchedule"}
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "topology.kubernetes.io/region",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}
AFFINITY = {
    "nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": [{"key": "region", "operator": "Exists"}]}]
        }
    }
}
CONSTRAINTS: Raw = {
    "nodeSelector": {"region": "eu"},
    "tolerations": [OF_THE_USER],
    "affinity": AFFINITY,
    "topologySpreadConstraints": [SPREAD],
}

Check = Callable[[Raw], bool]


def spec_of(proxy: Raw) -> Raw:
    spec: Raw = proxy["spec"]
    return spec


def constrained(proxy: Raw) -> bool:
    spec = spec_of(proxy)
    return (
        spec["nodeSelector"] == CONSTRAINTS["nodeSelector"] | PROVIDER
        and [one for one in spec["tolerations"] if one not in TOLERATIONS] == [OF_THE_USER]
        and spec["affinity"] == AFFINITY
        and spec["topologySpreadConstraints"] == [SPREAD]
    )


def unconstrained(proxy: Raw) -> bool:
    spec = spec_of(proxy)
    return (
        spec["nodeSelector"] == PROVIDER
        and spec["tolerations"] == TOLERATIONS
        and not {"affinity", "topologySpreadConstraints"} & spec.keys()
    )


def kept(suffix: str, value: str) -> Callable[[str], Check]:
    """Return whether the key stays on the proxy pod and is in the manifest, where other components read it."""

    def check(prefix: str) -> Check:
        key = prefix + suffix
        return lambda proxy: (
            proxy["metadata"]["annotations"][key] == source_pod(proxy)["metadata"]["annotations"][key] == value
        )

    return check


KEYS: list[tuple[str, str, Raw, Callable[[str], Check]]] = [
    ("elect", "", {}, lambda prefix: is_proxy),
    ("elect", "anything", {}, lambda prefix: is_proxy),
    ("no-reservation", "", {}, kept("no-reservation", "")),
    ("no-prefix-label-regexp", "^a=", {}, kept("no-prefix-label-regexp", "^a=")),
    ("scheduling", "reserve", {}, kept("scheduling", "reserve")),
    ("proxy-pod-scheduling-constraints", json.dumps(CONSTRAINTS), {}, lambda prefix: constrained),
    ("proxy-pod-scheduling-constraints", "", CONSTRAINTS, lambda prefix: unconstrained),
    ("use-constraints-from-spec-for-proxy-pod-scheduling", "", CONSTRAINTS, lambda prefix: constrained),
    ("use-constraints-from-spec-for-proxy-pod-scheduling", "", {}, lambda prefix: unconstrained),
]


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_each_annotation_of_users_in_section_2_1_counts_under_both_prefixes(place: Place, prefix: str) -> None:
    async with place.replica():
        for suffix, value, spec, check in KEYS:
            election = {} if suffix == "elect" else {prefix + "elect": ""}
            proxy = await place.create(pod("web", {**election, prefix + suffix: value}, **spec), dry_run=True)
            assert is_proxy(proxy)
            assert check(prefix)(proxy), f"{prefix}{suffix}: {value!r} made {proxy['spec']}"


BAD = [
    ("no-prefix-label-regexp", "?!foo", "no argument for repetition operator"),
    ("no-prefix-label-regexp", "(?=x)", "is not a regular expression"),
    ("proxy-pod-scheduling-constraints", "nodeSelectors: {a: b}", "nodeSelectors"),
    ("proxy-pod-scheduling-constraints", "containers: []", "containers"),
    ("proxy-pod-scheduling-constraints", "nodeSelector: {virtual-kubelet.io/provider: other}", "remove the key"),
    ("scheduling", "fast", "ranked or reserve"),
    ("resource-claims", "source", "must be target"),
]


@pytest.mark.parametrize("prefix", PREFIXES)
async def test_a_bad_value_is_refused_with_field_and_reason(place: Place, prefix: str) -> None:
    async with place.replica():
        for suffix, value, reason in BAD:
            with pytest.raises(Invalid) as refused:
                await place.create(pod("web", {prefix + "elect": "", prefix + suffix: value}))
            assert f"metadata.annotations[{prefix}{suffix}]" in refused.value.message
            assert reason in refused.value.message


async def test_step_5_constraints_of_the_annotation_win_over_those_of_the_spec(place: Place) -> None:
    both = {
        LONG + "proxy-pod-scheduling-constraints": "nodeSelector: {region: us}",
        SHORT + "use-constraints-from-spec-for-proxy-pod-scheduling": "",
    }
    async with place.replica():
        proxy = await place.create(elected("web", both, **CONSTRAINTS), dry_run=True)
    assert proxy["spec"]["nodeSelector"] == {"region": "us"} | PROVIDER
    assert proxy["spec"]["tolerations"] == TOLERATIONS


class Step(NamedTuple):
    """Step of section 3, and the check that the proxy pod results from the submitted pod."""

    name: str
    holds: Callable[[Raw, Raw], bool]
    """Check of the proxy pod and the source pod that it carries."""


UNTOUCHED = ("containers", "volumes", "serviceAccountName", "priority", "preemptionPolicy", "dnsPolicy")
STEPS = (
    Step("1: its annotations are those sent and the manifest", lambda proxy, source: set(marks(proxy)) == MARKS),
    # Built-in admission runs before the webhook, so the source pod contains the delegate's constraints and grace
    # period.
    Step("1: the manifest has been defaulted", lambda proxy, source: "serviceAccountToken" in json.dumps(source)),
    Step("1: and names its scheduler", lambda proxy, source: source["spec"]["schedulerName"] == "default-scheduler"),
    Step("1: and its grace period", lambda proxy, source: source["spec"]["terminationGracePeriodSeconds"] == 45),
    Step("1: and its labels", lambda proxy, source: source["metadata"]["labels"] == {"app": "web"}),
    Step(
        "1: and its constraints",
        lambda proxy, source: (
            (source["spec"]["nodeSelector"], source["spec"]["affinity"]) == ({"region": "eu"}, AFFINITY)
            and {"gpu", "node.kubernetes.io/not-ready"} <= {one["key"] for one in source["spec"]["tolerations"]}
        ),
    ),
    Step("2: its node selector", lambda proxy, source: proxy["spec"]["nodeSelector"] == PROVIDER),
    Step("3: its tolerations", lambda proxy, source: proxy["spec"]["tolerations"] == TOLERATIONS),
    Step("4: no affinity", lambda proxy, source: "affinity" not in proxy["spec"]),
    Step("4: no spread constraints", lambda proxy, source: "topologySpreadConstraints" not in proxy["spec"]),
    Step("6: its scheduler", lambda proxy, source: proxy["spec"]["schedulerName"] == "admiralty-proxy"),
    Step("7: no grace period", lambda proxy, source: proxy["spec"]["terminationGracePeriodSeconds"] == 0),
    Step("8: finalizers of others stay first", lambda proxy, source: finalizers(proxy)[0] == "example.com/mine"),
    Step("8: those of all known targets follow", lambda proxy, source: known(proxy) <= set(finalizers(proxy)[1:])),
    Step("8: old ones are dropped", lambda proxy, source: not STALE & set(finalizers(proxy))),
    Step("9: its label", lambda proxy, source: proxy["metadata"]["labels"] == {"app": "web", HAS_FINALIZER: "true"}),
    Step(
        "nothing else is touched",
        lambda proxy, source: all(proxy["spec"][field] == source["spec"][field] for field in UNTOUCHED),
    ),
    Step(
        "its owners stay",
        lambda proxy, source: [owner["name"] for owner in proxy["metadata"]["ownerReferences"]] == ["web-7d"],
    ),
)


def marks(proxy: Raw) -> Raw:
    found: Raw = proxy["metadata"]["annotations"]
    return found


def finalizers(proxy: Raw) -> list[str]:
    found: list[str] = proxy["metadata"]["finalizers"]
    return found


def known(proxy: Raw) -> set[str]:
    """Return the finalizers of the existing Target and ClusterTarget."""
    namespace = proxy["metadata"]["namespace"]
    return {finalizer(namespace, "c2"), finalizer("", namespace)}


async def test_a_proxy_pod_is_what_each_step_of_section_3_makes_of_it(place: Place) -> None:
    sent = elected("web", {"team": "x"}, **CONSTRAINTS, terminationGracePeriodSeconds=45)
    sent["metadata"] |= {
        "labels": {"app": "web"},
        "finalizers": ["example.com/mine", *STALE],
        "ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d", "uid": "8b7a2f6e", "controller": True}
        ],
    }
    await place.client.create(TARGETS, target(TARGETS, "c2", place.namespace))
    await place.client.create(CLUSTER_TARGETS, target(CLUSTER_TARGETS, place.namespace))
    try:
        async with place.replica():
            proxy = await place.create(sent)
    finally:
        await place.client.delete(CLUSTER_TARGETS, place.namespace)
    failed = [step.name for step in STEPS if not step.holds(proxy, source_pod(proxy))]
    assert failed == [], proxy


async def test_step_1_a_manifest_that_is_there_is_kept_and_its_constraints_count(place: Place) -> None:
    key = LONG + "sourcepod-manifest"
    earlier = elected("web", **CONSTRAINTS)
    again = elected(
        "web",
        {SHORT + "use-constraints-from-spec-for-proxy-pod-scheduling": "", key: json.dumps(earlier)},
    )
    async with place.replica():
        proxy = await place.create(again, dry_run=True)
        assert proxy["metadata"]["annotations"][key] == json.dumps(earlier)
        assert constrained(proxy)
        with pytest.raises(Invalid, match="sourcepod-manifest"):
            await place.create(elected("web", {key: "{"}), dry_run=True)


async def test_a_proxy_pod_that_is_created_again_stays_the_same(place: Place) -> None:
    """Reinvocation does the same, but this runs after everything that admission adds at the end."""
    async with place.replica():
        once: dict[str, Any] = await place.create(elected("once", **CONSTRAINTS), dry_run=True)
        sent = {**once, "metadata": {key: once["metadata"][key] for key in ("annotations", "labels", "name")}}
        twice = await place.create(sent, dry_run=True)
    assert twice["spec"] == once["spec"]
    assert twice["metadata"]["annotations"] == once["metadata"]["annotations"]


async def test_an_annotation_on_a_pod_that_exists_elects_nothing(place: Place) -> None:
    async with place.replica():
        await place.create(pod("late"))
        annotation = {"metadata": {"annotations": {LONG + "elect": ""}}}
        late = await place.client.patch(PODS, "late", annotation, place.namespace)
    assert not is_proxy(late)


async def test_pods_with_long_scripts_are_admitted_as_in_a_plain_cluster(place: Place) -> None:
    """`kubectl apply` writes the manifest into an annotation, which the webhook's manifest does not repeat."""
    async with place.replica():
        for kilobytes in (100, 220):
            script = "echo 'a line of a script'\n" * (kilobytes * 1000 // 27)
            sent = elected("long", {"team": "x"})
            sent["spec"]["containers"][0]["args"] = [script]
            sent["metadata"]["annotations"]["kubectl.kubernetes.io/last-applied-configuration"] = json.dumps(sent)
            proxy = await place.create(sent, dry_run=True)
            assert is_proxy(proxy)
            assert proxy["spec"]["containers"][0]["args"] == [script]
            assert source_pod(proxy)["metadata"]["annotations"] == {LONG + "elect": "", "team": "x"}


async def test_a_pod_with_a_resource_claim_is_refused_unless_it_says_that_targets_have_it(place: Place) -> None:
    claim = {"name": "d", "resourceClaimTemplateName": "one-device"}
    async with place.replica():
        with pytest.raises(Invalid) as refused:
            await place.create(elected(resourceClaims=[claim]), dry_run=True)
        assert "spec.resourceClaims[0].resourceClaimTemplateName" in refused.value.message
        assert "ResourceClaimTemplate one-device does not follow" in refused.value.message
        proxy = await place.create(
            elected("web", {SHORT + "resource-claims": "target"}, resourceClaims=[claim]), dry_run=True
        )
        assert proxy["spec"]["resourceClaims"] == [claim]


async def test_virtual_nodes_are_no_domains_for_pods_that_stay_and_are_spread_hard(place: Place) -> None:
    soft = {**SPREAD, "whenUnsatisfiable": "ScheduleAnyway"}
    chosen = {**SPREAD, "topologyKey": "zone", "nodeTaintsPolicy": "Ignore"}
    async with place.replica():
        plain = await place.create(pod("web", topologySpreadConstraints=[SPREAD, chosen, soft]), dry_run=True)
        assert plain["spec"]["topologySpreadConstraints"] == [{**SPREAD, "nodeTaintsPolicy": "Honor"}, chosen, soft]
        proxy = await place.create(elected("web", topologySpreadConstraints=[SPREAD]), dry_run=True)
        assert source_pod(proxy)["spec"]["topologySpreadConstraints"] == [SPREAD]
