"""Differences that hack/corpus ignores and differences that it reports."""

from typing import Any

import pytest

from agent.api import names
from agent.model.service import format_selector
from hack.lab.corpus.compare import changed, differences, excused, uneven
from hack.lab.corpus.views import left, view
from tests.corpus.objects import endpoints_of, obj, pod, slice_of

Raw = dict[str, Any]

ELECTED = {
    "nodeName": "admiralty-us",
    "schedulerName": names.SCHEDULER_PROXY,
    "nodeSelector": {names.PROVIDER_KEY: names.PROVIDER_VALUE},
    "tolerations": [{"key": names.PROVIDER_KEY}],
}


def deployed(random: str, **spec: Any) -> list[Raw]:
    """Return a Deployment, its ReplicaSet and its pods with generated names."""
    deployment = obj("Deployment", "web", spec={"replicas": 2}, status={"replicas": 2})
    replicas = obj("ReplicaSet", "web-5d4f", owner=deployment, spec={"replicas": 2})
    pods = [pod(f"web-5d4f-{random}{number}", replicas, generate="web-5d4f-", **spec) for number in range(2)]
    return [deployment, replicas, *pods]


def unlike(plain: list[Raw], elected: list[Raw], virtual: frozenset[str] = frozenset()) -> list[str]:
    return differences(view(plain), view(elected, virtual))


def test_pods_elsewhere_under_other_names_are_alike() -> None:
    assert unlike(deployed("a", nodeName="node-1"), deployed("b", **ELECTED)) == []


def test_a_pod_that_is_missing_or_in_another_phase_is_not() -> None:
    here, there = deployed("a"), deployed("b")
    assert unlike(here, there[:-1]) == ["Pod shop/web-5d4f-*, how many: 1 (plain: 2)"]
    there[-1]["status"]["phase"] = "Pending"
    (line,) = unlike(here, there)
    assert line.startswith("Pod shop/web-5d4f-*, ")
    assert "status.phase: Pending (plain: Running)" in line


def test_containers_volumes_and_labels_of_a_pod_count() -> None:
    changed = pod("one", volumes=[{"name": "data", "emptyDir": {}}])
    (line,) = unlike([pod("one")], [changed])
    assert 'volumes: [{"emptyDir": {}, "name": "data"}] (plain: [])' in line
    token = pod("one", volumes=[{"name": "kube-api-access-x7", "projected": {}}])
    assert unlike([pod("one")], [token]) == []
    labelled = pod("one")
    labelled["metadata"]["labels"] = {"app": "one", names.LABEL_HAS_FINALIZER: "true"}
    assert unlike([pod("one")], [labelled]) == ['Pod shop/one, labels: {"app": "one"} (plain: nothing)']


def test_a_service_that_leads_to_delegates_is_alike_with_as_many_endpoints() -> None:
    selector = {"app": "web"}
    spec = {"selector": selector, "clusterIP": "10.0.0.1", "ports": [{"port": 80, "nodePort": 30001}]}
    plain = [obj("Service", "web", spec=spec), slice_of("web", 2)]
    kept = {names.ANNOTATION_ORIGINAL_SELECTOR: format_selector(selector), names.ANNOTATION_CILIUM: "true"}
    rewritten = {"selector": {f"{names.PREFIX}app": "web"}, "clusterIP": "10.0.0.9", "ports": [{"port": 80}]}
    service = obj("Service", "web", metadata={"annotations": kept}, spec=rewritten)
    elsewhere = [slice_of("web", 1, managed=names.SLICE_MANAGER) for _ in range(2)]
    assert unlike(plain, [service, slice_of("web", 0), *elsewhere]) == []
    (line,) = unlike(plain, [service, slice_of("web", 0), elsewhere[0]])
    assert "endpoints.http:80 ready: 1 (plain: 2)" in line


def test_core_endpoints_have_to_refer_to_the_same_pods() -> None:
    def served(random: str, count: int = 2) -> list[Raw]:
        service = obj("Service", "web", spec={"selector": {"app": "web"}, "ports": [{"port": 80}]})
        objects = deployed(random)
        return [*objects, service, endpoints_of("web", objects[2 : 2 + count])]

    assert unlike(served("a"), served("b")) == []
    (line,) = unlike(served("a"), served("b", 0))
    names_ = '["Pod shop/web-5d4f-*", "Pod shop/web-5d4f-*"]'
    assert line == f"Service shop/web, references.http:80 ready: nothing (plain: {names_})"
    by_hand = served("b")
    for address in by_hand[-1]["subsets"][0]["addresses"]:
        del address["targetRef"]
    (line,) = unlike(served("a"), by_hand)
    assert "references.http:80 ready[0]: 10.0.0.0 (plain: Pod shop/web-5d4f-*)" in line


def test_a_service_that_is_written_when_all_is_quiet_is_reported() -> None:
    before = {"Service shop/web in us": "7", "Service shop/db in us": "8"}
    assert changed({}, before) == []
    assert changed(before, {**before, "Service shop/new in us": "9"}) == []
    assert changed(before, {**before, "Service shop/web in us": "9"}) == [
        "Service shop/web in us: is being written again and again"
    ]


def test_a_slice_by_hand_is_an_object_like_any() -> None:
    by_hand = slice_of("web", 2, managed="somebody")
    assert unlike([by_hand], []) == ["EndpointSlice shop/web-ody-2, how many: 0 (plain: 1)"]
    assert unlike([slice_of("web", 2)], []) == []


def test_a_claim_is_alike_once_it_is_bound_whatever_its_volume() -> None:
    def claim(phase: str, **spec: str) -> Raw:
        return obj(
            "PersistentVolumeClaim", "data", spec={"accessModes": ["ReadWriteOnce"], **spec}, status={"phase": phase}
        )

    bound = claim("Bound", volumeName="pvc-1")
    assert unlike([bound], [claim("Bound", volumeName="pvc-2")]) == []
    (line,) = unlike([bound], [claim("Pending")])
    assert "status.phase: Pending (plain: Bound)" in line
    assert "rollout: it is Pending" in line


def test_a_daemon_set_may_have_more_nodes_but_has_to_roll_out() -> None:
    def daemons(nodes: list[str], available: int) -> list[Raw]:
        status = {
            "desiredNumberScheduled": len(nodes),
            "updatedNumberScheduled": len(nodes),
            "numberAvailable": available,
        }
        owner = obj("DaemonSet", "agent", spec={}, status=status)
        made = [pod(f"agent-{node}", owner, generate="agent-", nodeName=node) for node in nodes]
        return [owner, *made]

    virtual = frozenset(("admiralty-us",))
    plain, elected = daemons(["one", "two"], 2), ["one", "two", "admiralty-us"]
    assert unlike(plain, daemons(elected, 3), virtual) == []
    (line,) = unlike(plain, daemons(elected, 2), virtual)
    assert "rollout: 2 of 3 pods are available" in line


def test_what_a_schedule_has_made_by_now_does_not_count() -> None:
    cron = obj("CronJob", "often", spec={})
    job = obj("Job", "often-1", owner=cron, spec={})
    assert unlike([cron], [cron, job, pod("often-1-x", job, generate="often-1-")]) == []


def test_what_of_an_ephemeral_volume_is_named_after_its_pod_is_known_by_its_owner() -> None:
    def with_claim(random: str) -> list[Raw]:
        objects = deployed(random)
        return [*objects, obj("PersistentVolumeClaim", f"web-5d4f-{random}1-work", owner=objects[-1], spec={})]

    assert unlike(with_claim("a"), with_claim("b")) == []


def test_names_that_the_cluster_makes_up_are_alike_wherever_they_stand() -> None:
    def generated(random: str) -> list[Raw]:
        labels = {"labels": {"job-name": f"report-{random}"}}
        job = obj("Job", f"report-{random}", generate="report-", metadata=labels, spec={})
        return [job, pod(f"report-{random}-x", job, generate=f"report-{random}-")]

    assert unlike(generated("a1b2"), generated("c3d4")) == []
    assert left(generated("a1b2")) == left(generated("c3d4"))


@pytest.mark.parametrize("kind", ["Secret", "ConfigMap"])
def test_contents_count(kind: str) -> None:
    (line,) = unlike([obj(kind, "one", data={"a": "1"})], [obj(kind, "one", data={"a": "2"})])
    assert line == f"{kind} shop/one, data.a: 2 (plain: 1)"


def test_what_every_namespace_has_is_nothing_that_is_left() -> None:
    always = [obj("ConfigMap", "kube-root-ca.crt"), obj("ServiceAccount", "default"), slice_of("web", 1)]
    assert left([*always, obj("Secret", "one")]) == ["Secret shop/one"]


def test_lines_are_compared_whatever_their_order() -> None:
    assert uneven("applied", ["a", "b"], ["b", "a"]) == []
    assert uneven("applied", ["a", "b"], ["b", "b"]) == ["applied: b", "applied: a (only plain)"]


def test_a_view_is_ready_when_nothing_waits() -> None:
    assert view(deployed("a")[2:]).ready
    waiting = view([pod("one", phase="Pending")])
    assert not waiting.ready
    assert waiting.waits == ["Pod shop/one: it is Pending"]


@pytest.mark.parametrize(
    ("plain", "elected", "excuse"),
    [
        pytest.param("unchanged", "unchanged", True, id="alike"),
        pytest.param("configured", "configured", True, id="both for ever"),
        pytest.param("configured", "unchanged", True, id="better than plain"),
        pytest.param("unchanged", "configured", False, id="worse than plain"),
        pytest.param("created", "unchanged", False, id="something else"),
    ],
)
def test_a_second_apply_is_unchanged_or_what_plain_gives(plain: str, elected: str, excuse: bool) -> None:
    said, lines = f"pod/web {elected}", [f"pod/other {elected}", f"pod/web {plain}"]
    assert (excused(said, lines, ()) in lines) is excuse


def test_what_is_rewritten_on_purpose_may_be_configured() -> None:
    assert excused("pod/web configured", ["pod/web unchanged"], ["pod/web"]) == "pod/web unchanged"
    assert excused("pod/web configured", ["pod/web configured"], ["pod/web"]) == "pod/web configured"


def test_volumes_may_come_in_any_order() -> None:
    two = [{"name": "data", "emptyDir": {}}, {"name": "log", "emptyDir": {}}]
    assert differences(view(deployed("a", volumes=two)), view(deployed("b", volumes=two[::-1]))) == []
