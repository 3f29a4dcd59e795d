"""Explanations of pods and their rendering; without clusters."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest
import yaml

from agent.api import names
from agent.api.kinds import CHAPERONS, CLUSTER_TARGETS, NAMESPACES, PODS, Kind
from agent.cli.explain import remedy
from agent.cli.explaining import rendering
from agent.cli.explaining.choosing import choosing
from agent.cli.explaining.explanation import explanation_of
from agent.cli.explaining.facts import Facts, Seen, Unexplained
from agent.cli.explaining.following import Following
from agent.cli.explaining.lines import Explanation
from agent.cli.explaining.volumes import settled
from agent.cli.output import as_json, as_yaml
from agent.kube.store import Object
from agent.model.claimfilter import combine as asking
from agent.model.claimfilter import level
from agent.model.electedlater import elected_later
from agent.model.proxypod import proxy_pod
from agent.model.targetchoice import Level, combine
from agent.ranking.placed import Decided, Placed, Reference, shares
from agent.settings import Settings
from tests.ranking.pods_and_targets import free, target_info, telling

NOW = datetime(2026, 1, 1, 12, 0, tzinfo=UTC)
CREATED = "2026-01-01T11:00:00Z"
EU, US = (f"admiralty-default-{name}" for name in ("eu", "us"))
UNSCHEDULABLE = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/5 nodes"}
Raw = dict[str, Any]


def proxy(cpu: str = "1", finalizers: tuple[str, ...] = (), name: str = "web", **annotations: str) -> Object:
    """Return a proxy pod. An underscore in a key of `multicluster/` stands for a dash."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    pod = proxy_pod(
        {"metadata": {"name": name, "namespace": "default"}, "spec": {"containers": [container]}}, finalizers
    )
    pod["metadata"] |= {"uid": f"uid-{name}", "creationTimestamp": CREATED}
    pod["metadata"]["annotations"] |= {names.SHORT_PREFIX + k.replace("_", "-"): v for k, v in annotations.items()}
    pod["status"] = {"phase": "Pending"}
    return Object(PODS, msgspec.json.encode(pod))


def chaperon(uid: str, status: Raw, **annotations: str) -> Object:
    metadata = {
        "name": "web-1",
        "namespace": "default",
        "uid": uid,
        "resourceVersion": "1",
        "labels": {names.LABEL_PARENT_UID: "uid-web"},
        "annotations": {names.PREFIX + k.replace("_", "-"): v for k, v in annotations.items()},
    }
    return Object(CHAPERONS, msgspec.json.encode({"metadata": metadata, "status": status}))


def seen(name: str, *chaperons: Object, cpu: str = "4", **changes: Any) -> Seen:
    """Return a target with one node that has this much free CPU."""
    labels = {names.PROVIDER_KEY: names.PROVIDER_VALUE}
    return Seen(target_info(name, shapes=(telling(free(cpu), cpu="32"),), labels=labels, **changes), chaperons)


def explained(pod: Object, *targets: Seen, others: tuple[Object, ...] = ()) -> Explanation:
    return explanation_of(Facts(pod, None, (pod, *others), targets), Settings(), NOW)


def test_a_pod_that_nothing_has_been_done_for_waits_for_the_agent() -> None:
    found = explained(proxy(), seen("eu"), seen("us", weight=50))
    assert found.waits_for == "the agent, which sends it to us next"
    assert [line.target for line in found.targets] == ["us", "eu"]
    assert found.targets[0].total is not None


def test_what_others_of_ours_were_promised_is_counted() -> None:
    young = proxy("3", name="young", claim=EU)
    raw = young.decode()
    raw["metadata"]["creationTimestamp"] = "2026-01-01T11:59:55Z"
    found = explained(proxy("3"), seen("eu"), others=(Object(PODS, msgspec.json.encode(raw)),))
    (line,) = found.targets
    assert line.reason == "NoRoom"


def test_the_one_candidate_that_is_left_is_told() -> None:
    pod = proxy("8", (names.PREFIX + "default-eu",), claim=EU)
    candidate = chaperon("c1", {"phase": "Pending", "conditions": [UNSCHEDULABLE]})
    found = explained(pod, seen("eu", candidate), seen("us", cpu="2"))
    assert found.claim == "eu"
    assert found.waits_for.startswith("room: one candidate is left in eu")
    assert {line.target: line.candidate for line in found.targets} == {"eu": "unschedulable: 0/5 nodes", "us": ""}


def test_of_a_pod_that_is_bound_the_ranking_of_now_is_told_without_itself() -> None:
    raw = proxy("3").decode()
    raw["spec"]["nodeName"] = US
    pod = Object(PODS, msgspec.json.encode(raw))
    found = explained(pod, seen("eu", cpu="2"), seen("us", weight=50))
    assert found.bound is not None
    assert [(line.target, line.reason) for line in found.targets] == [("us", ""), ("eu", "NoRoom")]
    assert found.waits_for == ""
    assert "as they would be tried now" in rendering.as_text(found, terminal=False)


def test_a_target_that_refuses_pods_is_none_for_a_pod_that_is_not_there_yet() -> None:
    refusing = replace(seen("us", weight=50), refusal="refuses pods of namespace default: no space")
    found = explained(proxy(), seen("eu"), refusing)
    assert found.waits_for == "the agent, which sends it to eu next"
    assert [(line.target, line.reason, line.verdict) for line in found.targets][1:] == [
        ("us", "TargetNotReady", "refuses pods of namespace default: no space")
    ]
    there = replace(refusing, chaperons=(chaperon("c1", {}),))
    claimed = explained(proxy("1", (names.PREFIX + "default-us",), claim=US), seen("eu"), there)
    assert claimed.waits_for == "a node in us, where its delegate is being scheduled"


def test_a_mode_of_the_namespace_that_is_none_is_told() -> None:
    metadata = {"name": "default", "annotations": {names.SHORT_PREFIX + names.SCHEDULING: "reserved"}}
    namespace = Object(NAMESPACES, msgspec.json.encode({"metadata": metadata}))
    pod = proxy()
    found = explanation_of(Facts(pod, namespace, (pod,), (seen("eu"),)), Settings(), NOW)
    assert found.mode == "ranked"
    (note,) = found.notes
    assert "'reserved'" in note
    assert "write ranked or reserve" in note


@pytest.mark.parametrize("mode", ["ranked", "reserve"])
def test_a_pod_of_a_namespace_that_is_not_enabled_is_told_how_to_enable_it(mode: str) -> None:
    pod = proxy(scheduling=mode)
    namespace = Object(NAMESPACES, msgspec.json.encode({"metadata": {"name": "default"}}))
    found = explanation_of(Facts(pod, namespace, (pod,), (seen("eu"),)), Settings(), NOW)
    assert found.waits_for.endswith("kubectl label namespace default multicluster-scheduler=enabled")


def test_namespaces_are_known_by_their_labels() -> None:
    db = proxy(name="db", claim=EU)
    raw = proxy().decode()
    term = {"topologyKey": names.PROVIDER_KEY, "namespaceSelector": {"matchLabels": {"team": "a"}}, "labelSelector": {}}
    raw["spec"]["affinity"] = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    pod = Object(PODS, msgspec.json.encode(raw))

    def reason(team: str) -> str:
        labelled = Object(NAMESPACES, msgspec.json.encode({"metadata": {"name": "default", "labels": {"team": team}}}))
        (line,) = explanation_of(Facts(pod, None, (pod, db), (seen("eu"),), (labelled,)), Settings(), NOW).targets
        return line.reason

    assert (reason("a"), reason("b")) == ("PodAntiAffinity", "")


def test_a_pod_may_only_go_where_its_volumes_are() -> None:
    pod = proxy()
    facts = Facts(pod, None, (pod,), (seen("eu"), seen("us")), volumes={"data": US})
    found = explanation_of(facts, Settings(), NOW)
    assert [(line.target, line.reason) for line in found.targets] == [("us", ""), ("eu", "VolumeElsewhere")]


def mounting(name: str, **annotations: str) -> Object:
    """Return a proxy pod that mounts the claim `data`."""
    raw = proxy(name=name, **annotations).decode()
    raw["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    return Object(PODS, msgspec.json.encode(raw))


@pytest.mark.parametrize(
    ("asked", "others", "counts"),
    [
        ({}, (), True),
        ({US: ()}, (), False),
        ({US: ("data",)}, (), True),
        ({US: ()}, (mounting("other", claim=US),), True),
        ({US: ()}, (mounting("other", claim=EU),), False),
        ({US: ()}, (mounting("web", claim=US),), False),
    ],
    ids=[
        "the target was not asked",
        "there is no volume yet",
        "the volume is there",
        "another pod there uses it",
        "the pod that uses it is elsewhere",
        "the pod itself is trying there",
    ],
)
def test_a_claim_holds_its_pod_where(asked: dict[str, Any], others: tuple[Object, ...], counts: bool) -> None:
    found = settled({"data": US}, mounting("web"), asked, others)
    assert found == ({"data": US} if counts else {})


def test_attempts_are_told_in_the_order_of_time() -> None:
    attempts = {US: {"reason": "taint", "at": "2026-01-01T11:30:00Z"}, EU: {"reason": "full", "at": "", "count": 2}}
    found = explained(proxy(attempts=json.dumps(attempts)), seen("eu"), seen("us"))
    assert [(tried.target, tried.reason, tried.count) for tried in found.attempts] == [
        ("eu", "full", 2),
        ("us", "taint", 1),
    ]


@pytest.mark.parametrize(
    ("status", "annotations", "want"),
    [
        ({"phase": "Pending"}, {}, "a reservation in eu"),
        ({"phase": "Pending"}, {"is_reserved": "node-1"}, "the agent, which claims a reservation in eu"),
        ({"phase": "Pending", "conditions": [UNSCHEDULABLE]}, {}, "a target that can take it: 0/1"),
    ],
    ids=["pending", "reserved", "refused"],
)
def test_in_mode_reserve_the_state_of_candidates_decides(status: Raw, annotations: dict[str, str], want: str) -> None:
    found = explained(proxy(scheduling="reserve"), seen("eu", chaperon("c1", status, **annotations)))
    assert found.mode == "reserve"
    assert found.waits_for.startswith(want)


def test_a_claimed_candidate_waits_for_leave_then_to_be_bound() -> None:
    pod = proxy(scheduling="reserve", claim=EU, claim_uid="c1")
    reserved = chaperon("c1", {"phase": "Pending"}, is_reserved="n1")
    allowed = chaperon("c1", {"phase": "Pending"}, is_reserved="n1", is_allowed="true")
    assert explained(pod, seen("eu", reserved)).waits_for == "leave for its candidate in eu"
    assert explained(pod, seen("eu", allowed)).waits_for == "its delegate in eu to be bound"


def test_a_member_of_a_group_waits_for_the_others() -> None:
    group = {"group": "train", "group_size": "4"}
    found = explained(proxy(**group), seen("eu"), others=(proxy(name="other", **group), proxy(name="single")))
    assert found.group == "train: 2 of 4 pods are there"
    assert found.waits_for == "its group: train: 2 of 4 pods are there"


def test_a_member_with_scheduling_gates_is_not_there_yet() -> None:
    group = {"group": "train", "group_size": "2"}
    raw = proxy(name="other", **group).decode()
    raw["spec"]["schedulingGates"] = [{"name": "example.com/quota"}]
    found = explained(proxy(**group), seen("eu"), others=(Object(PODS, msgspec.json.encode(raw)),))
    assert found.group == "train: 1 of 2 pods are there, and 1 with scheduling gates"


def test_a_claim_whose_target_was_not_asked_is_no_reason_to_guess() -> None:
    pod = proxy(finalizers=(names.PREFIX + "default-eu",), claim=EU)
    found = explained(pod, Seen(target_info("eu"), unread="secrets are forbidden"))
    assert found.waits_for == "eu, which it is claimed by and which was not asked"
    assert [line.candidate for line in found.targets] == ["?"]


def test_a_manifest_that_is_unusable_is_said_to_be() -> None:
    raw = proxy().decode()
    del raw["metadata"]["annotations"][names.ANNOTATION_MANIFEST]
    with pytest.raises(Unexplained, match="cannot be placed"):
        explained(Object(PODS, msgspec.json.encode(raw)), seen("eu"))


def pod(
    labels: dict[str, str] | None = None, owner: str = "", elected: bool = False, status: Raw | None = None
) -> Object:
    metadata: Raw = {"name": "web", "namespace": "default", "labels": labels or {}}
    if owner:
        api = f"{names.GROUP}/{names.VERSION}" if owner == "PodChaperon" else "apps/v1"
        metadata["ownerReferences"] = [
            {"apiVersion": api, "kind": owner, "name": "web-1", "uid": "u", "controller": True}
        ]
    if elected:
        metadata["annotations"] = {names.PREFIX + names.ELECT: ""}
    spec = {"schedulerName": "default-scheduler", **({"nodeName": US} if status else {})}
    return Object(PODS, msgspec.json.encode({"metadata": metadata, "spec": spec, "status": status or {}}))


def namespace(**labels: str) -> Object:
    found = {key.replace("_", "-"): value for key, value in labels.items()}
    return Object(NAMESPACES, msgspec.json.encode({"metadata": {"name": "default", "labels": found}}))


ENABLED = namespace(multicluster_scheduler="enabled")


@pytest.mark.parametrize(
    ("stranger", "where", "want"),
    [
        (pod(), namespace(), "kubectl label namespace default multicluster-scheduler=enabled"),
        (pod(), ENABLED, "was not elected, so it runs in this cluster (scheduler default-scheduler); annotate it"),
        (pod(elected=True), namespace(), "its namespace was not enabled when it was created: run `kubectl label"),
        (pod(elected=True), ENABLED, "there was no webhook when it was created: see that the webhook runs"),
        (
            pod({names.LABEL_PARENT_CLUSTER_NAME: "cd"}, "PodChaperon"),
            None,
            "is a delegate, made by PodChaperon web-1: explain the proxy pod that it stands for, in cluster cd",
        ),
        (
            pod(owner="DaemonSet", status={"reason": "VirtualNode"}),
            ENABLED,
            f"is a DaemonSet's: no container of this pod runs: node {US} stands for another cluster",
        ),
        (pod(owner="DaemonSet"), ENABLED, "was not elected, so it runs in this cluster"),
        (proxy(), None, ""),
    ],
    ids=["plain", "plain, enabled", "too early", "no webhook", "delegate", "stand-in", "DaemonSet", "ours"],
)
def test_pods_of_others_get_the_remedy(stranger: Object, where: Object | None, want: str) -> None:
    told = remedy(stranger, where)
    assert want in told
    assert bool(told) == bool(want)


def test_a_pod_that_was_annotated_after_its_creation_is_not_said_to_lack_a_webhook() -> None:
    told = remedy(pod(elected=True), ENABLED, later=True)
    assert "was annotated after it had been created, which elects no pod: create the pod again" in told
    assert "which elects no pod: run `kubectl label" in remedy(pod(elected=True), namespace(), later=True)


@pytest.mark.parametrize(("time", "want"), [("2026-01-01T00:00:09Z", True), ("2026-01-01T00:00:00Z", False)])
def test_managed_fields_tell_when_a_pod_was_annotated(time: str, want: bool) -> None:
    owned = {"f:metadata": {"f:annotations": {f"f:{names.PREFIX}{names.ELECT}": {}}}}
    metadata = {"creationTimestamp": "2026-01-01T00:00:00Z", "managedFields": [{"time": time, "fieldsV1": owned}]}
    assert elected_later(msgspec.json.encode({"metadata": metadata})) is want
    assert not elected_later(msgspec.json.encode({"metadata": {"creationTimestamp": time}}))


def test_the_total_is_the_sum_of_the_scores_that_are_told_by_the_weights_that_are_told() -> None:
    extra = Settings(extra_score=("0.5:scores.v1.example.com:green:power",))
    for settings in (Settings(), extra, Settings(score_target_weight=0.0, placement_strategy="most")):
        pod = proxy()
        found = explanation_of(Facts(pod, None, (pod,), (seen("eu"), seen("us", weight=50))), settings, NOW)
        assert found.targets
        for line in found.targets:
            assert line.total == pytest.approx(sum(score * found.weights[name] for name, score in line.scores.items()))


def test_the_three_formats_say_the_same() -> None:
    attempts = {US: {"reason": "0/5 nodes", "at": "2026-01-01T11:30:00Z"}}
    found = explained(proxy("8", attempts=json.dumps(attempts)), seen("eu"), seen("us", cpu="16", weight=50))
    assert json.loads(as_json(found)) == yaml.safe_load(as_yaml(found))
    plain = rendering.as_text(found, terminal=False)
    drawn = rendering.as_text(found, terminal=True)
    for text in (plain, drawn):
        for word in ("Pod default/web", "WEIGHT", "insufficient", "yes", "Attempts:"):
            assert word in text
    assert "CAPACITY x1  TARGET WEIGHT x10  TOTAL" in plain
    assert "\x1b" not in plain
    assert plain.splitlines()[-1].endswith("2026-01-01T11:30:00Z  0/5 nodes")


def follower(*clusters: str, why: str = "", known: bool = True, **more: Any) -> Following:
    placed = Placed(Reference("web"), shares(Decided(cluster) for cluster in clusters), why, known=known)
    return Following(placed, **more)


def following(found: Following, pod: Object, *targets: Seen) -> Explanation:
    return explanation_of(Facts(pod, None, (pod,), targets, following=found), Settings(), NOW)


def test_a_pod_that_follows_a_placement_says_so_and_why_other_targets_are_not_for_it() -> None:
    away = follower("eu", reasons={"us": "taint maintenance:NoSelect is not tolerated"})
    targets = [seen(name, managed_cluster=name) for name in ("eu", "us", "ap")]
    found = following(away, proxy(), *targets)
    assert found.follows == "Placement web, which has decided for eu"
    assert {line.target: line.verdict for line in found.targets} == {
        "eu": "",
        "us": "not in Placement web: taint maintenance:NoSelect is not tolerated",
        "ap": "not in Placement web: not among its decisions",
    }
    assert found.targets[0].scores["placement"] == 50.0
    assert found.weights["placement"] == 100.0
    assert "Follows:    Placement web, which has decided for eu" in rendering.as_text(found, terminal=False)


def test_a_pod_waits_for_a_placement_that_has_decided_nothing() -> None:
    found = following(follower(why="it has no decisions yet", known=False), proxy(), seen("eu", managed_cluster="eu"))
    assert found.follows == "Placement web"
    assert found.waits_for.endswith("0/1 targets are available: eu: not in Placement web: it has no decisions yet")


@pytest.mark.parametrize(
    ("when", "want"),
    [
        ("", "; the pod stays, as multicluster/when-unplaced says"),
        ("stay", "; the pod stays, as multicluster/when-unplaced says"),
        ("move", "; the pod moves, as multicluster/when-unplaced says, unless the agent has --no-moves"),
        ("leave", "; the pod stays, for multicluster/when-unplaced is 'leave': write stay"),
    ],
)
def test_a_bound_pod_outside_of_the_decision_stays(when: str, want: str) -> None:
    pod = proxy().decode()
    pod["spec"]["nodeName"] = EU
    targets = [seen(name, managed_cluster=name) for name in ("eu", "us")]
    found = following(follower("us", when_unplaced=when), Object(PODS, msgspec.json.encode(pod)), *targets)
    assert found.follows == f"Placement web, which has decided for us{want}"
    assert following(follower("eu"), Object(PODS, msgspec.json.encode(pod)), *targets).follows.endswith("for eu")


def test_a_pod_whose_delegate_has_no_node_leaves_a_target_that_is_no_longer_decided() -> None:
    targets = [seen("eu", chaperon("c", {}), managed_cluster="eu"), seen("us", managed_cluster="us")]
    found = following(follower("us"), proxy(claim=EU, finalizers=("multicluster.admiralty.io/default-eu",)), *targets)
    assert found.waits_for == "the agent, which takes it away from eu next: no longer in Placement web"


def test_targets_that_annotations_choose_are_told_with_who_says_so() -> None:
    choice = combine([Level("Deployment web", "us > eu", None, "multicluster/targets")])
    assert choice is not None
    targets = (seen("eu", weight=100), seen("us"), seen("ap"))
    waits = explanation_of(Facts(proxy(), None, (proxy(),), targets, choice=choice), Settings(), NOW)
    assert waits.chosen == "multicluster/targets of Deployment web (us > eu)"
    assert [line.target for line in waits.targets] == ["us", "eu", "ap"]
    assert waits.targets[2].verdict == "not in multicluster/targets of Deployment web (us > eu)"
    assert waits.waits_for == "the agent, which sends it to us next"
    assert "Chosen:     multicluster/targets of Deployment web (us > eu)" in rendering.as_text(waits, terminal=False)
    pod = proxy().decode()
    pod["spec"]["nodeName"] = EU
    bound = Object(PODS, msgspec.json.encode(pod))
    elsewhere = combine([Level("namespace default", "us", None, "multicluster/targets")])
    told = explanation_of(Facts(bound, None, (bound,), targets, choice=elsewhere), Settings(), NOW)
    assert told.chosen == "multicluster/targets of namespace default (us); eu is none of them"


def test_claims_that_annotations_ask_for_are_told_with_who_says_so() -> None:
    claim = "p2code.filter.region"
    claims = asking((level("namespace default", {claim: "south"}),))
    targets = (seen("eu", claims={claim: "north"}), seen("us", claims={claim: "south"}))
    waits = explanation_of(Facts(proxy(), None, (proxy(),), targets, claims=claims), Settings(), NOW)
    assert waits.claims == f"{claim}=south of namespace default"
    assert waits.waits_for == "the agent, which sends it to us next"
    why = f"its claim {claim} is north, and is to be south for namespace default"
    assert [(line.target, line.reason, line.verdict) for line in waits.targets] == [
        ("us", "", ""),
        ("eu", "NotClaimed", why),
    ]
    assert f"Claims:     {claim}=south of namespace default" in rendering.as_text(waits, terminal=False)
    pod = proxy().decode()
    pod["spec"]["nodeName"] = EU
    bound = Object(PODS, msgspec.json.encode(pod))
    told = explanation_of(Facts(bound, None, (bound,), targets, claims=claims), Settings(), NOW)
    assert told.claims == f"{claim}=south of namespace default; it stays in eu, though {why}"
    held = proxy(claim=EU, finalizers=("multicluster.admiralty.io/default-eu",))
    leaving = (seen("eu", chaperon("c", {}), claims={claim: "north"}), targets[1])
    found = explanation_of(Facts(held, None, (held,), leaving, claims=claims), Settings(), NOW)
    assert found.waits_for == f"the agent, which takes it away from eu next: {why}"


async def test_what_controls_a_pod_is_read_with_the_rights_of_the_user() -> None:
    """Without the setting the owner is ignored, and a note reports it."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs", "controller": True}
    above = owner | {"kind": "Deployment", "name": "web", "uid": "d"}
    pod = proxy().decode()
    pod["metadata"]["ownerReferences"] = [owner]

    class Source:
        async def get_raw(self, kind: Kind, name: str, namespace: str) -> bytes:
            uid, owners = ("rs", [above]) if name == "web-1" else ("d", [])
            annotations = {"multicluster/targets": "us,mars" if name == "web" else "copied"}
            metadata = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": "1"}
            return msgspec.json.encode({"metadata": metadata | {"ownerReferences": owners, "annotations": annotations}})

    source: Any = Source()

    async def chosen(settings: Settings, *conditions: str) -> tuple[str, list[str]]:
        notes: list[str] = []
        status = {"conditions": [{"type": each, "status": "True"} for each in conditions]}
        raw = {"metadata": {"name": "us", "resourceVersion": "1"}, "status": status}
        us = Object(CLUSTER_TARGETS, msgspec.json.encode(raw))
        read = Object(PODS, msgspec.json.encode(pod))
        choice = await choosing(source, read, None, [us], settings, notes)
        return choice.source if choice is not None else "", notes

    found, notes = await chosen(Settings(), "Stable")
    assert found == "multicluster/targets of Deployment web (us,mars)"
    assert notes == ["no Target in namespace default and no ClusterTarget is called mars"]
    ignored = (
        "what Deployment web says of targets does not count: the agent of this cluster runs with --no-moves, and"
        " without --p2code"
    )
    assert await chosen(Settings()) == ("", [ignored])
    assert await chosen(Settings(moves=False), "Stable") == ("", [ignored])
