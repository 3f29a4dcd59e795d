import copy
from collections.abc import Mapping
from typing import Any

import hypothesis
import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st

from agent.model.proxypod import proxy_pod, source_pod
from tests.examples import examples
from tests.webhook.reviews import patched, pod, review
from webhook.pods import Noted, answer, takes_long
from webhook.review import Answer, Malformed, Outcome, read

FINALIZERS = {"default": ["multicluster.admiralty.io/c1", "multicluster.admiralty.io/default-c2"]}


class Known:
    """Targets that the test chooses."""

    def finalizers(self, namespace: str) -> list[str]:
        return FINALIZERS.get(namespace, [])

    def missing(self, namespace: str, pod: Mapping[str, Any]) -> list[str]:
        account = pod["spec"].get("serviceAccountName")
        return [f"{account} is missing in {namespace}"] if account else []


def ask(obj: Any, *, by_default: bool = False, agent: str = "", **request: Any) -> Answer:
    body = msgspec.json.encode(review(obj, **request))
    return answer(read(body), Known(), by_default=by_default, agent=agent)


def test_an_elected_pod_becomes_a_proxy_pod() -> None:
    given = ask(pod())
    assert given.outcome is Outcome.MUTATED
    assert given.review["response"]["uid"] == "705ab4f5"
    assert given.review["response"]["allowed"] is True
    assert patched(pod(), given.review) == proxy_pod(pod(), FINALIZERS["default"])


def test_the_patch_leaves_fields_we_do_not_know_alone() -> None:
    sent = pod()
    sent["spec"]["fieldOfTheFuture"] = {"a": [1]}
    sent["spec"]["containers"][0]["another"] = True
    proxy = patched(sent, ask(sent).review)
    assert proxy["spec"]["fieldOfTheFuture"] == {"a": [1]}
    assert source_pod(proxy)["spec"] == sent["spec"]


@pytest.mark.parametrize(
    "sent",
    [
        pod(elected=False),
        pod() | {"metadata": {"name": "web"}},
        pod()
        | {
            "metadata": {
                **pod()["metadata"],
                "ownerReferences": [
                    {"apiVersion": "multicluster.admiralty.io/v1alpha1", "kind": "PodChaperon", "controller": True}
                ],
            }
        },
    ],
    ids=["not elected", "without annotations", "a delegate"],
)
def test_other_pods_are_allowed_as_they_are(sent: dict[str, Any]) -> None:
    given = ask(sent)
    assert given.outcome is Outcome.UNTOUCHED
    assert given.review["response"] == {"uid": "705ab4f5", "allowed": True}


@pytest.mark.parametrize(
    "request_", [{"operation": "UPDATE"}, {"operation": "DELETE", "object": None}, {"subResource": "status"}]
)
def test_only_creation_is_ours(request_: dict[str, Any]) -> None:
    sent = request_.pop("object", pod())
    assert ask(sent, **request_).outcome is Outcome.UNTOUCHED


MANIFEST, CONSTRAINTS = "sourcepod_manifest", "proxy_pod_scheduling_constraints"


def test_long_documents_are_answered_by_another_thread_and_the_same_way() -> None:
    sent = pod(**{CONSTRAINTS: f"nodeSelector: {{a: {'b' * 5000}}}"})
    sent["spec"]["serviceAccountName"] = "robot"
    request = read(msgspec.json.encode(review(sent)))
    assert takes_long(request)
    given = answer(request, Noted.of(request, Known()))
    assert given == answer(request, Known())
    assert given.review["response"]["warnings"] == ["robot is missing in default"]
    assert not takes_long(read(msgspec.json.encode(review(pod(**{CONSTRAINTS: "nodeSelector: {a: b}"})))))


@pytest.mark.parametrize("obj", [None, [], {"kind": "Pod"}, {"kind": "Job", "metadata": {"annotations": {"a": "b"}}}])
def test_what_is_no_pod_takes_no_thread(obj: Any) -> None:
    assert not takes_long(read(msgspec.json.encode(review(obj))))


DEEP = '{"nodeSelector":' * 400 + "{}" + "}" * 400
TEXTS = st.sampled_from([DEEP, "[" * 5000, "", "{}", "a: *b"]) | st.text(alphabet="ab01:-[]{},&*!'\"\n #~", max_size=40)


@settings(max_examples=examples(500), deadline=None)
@hypothesis.given(
    st.dictionaries(
        st.sampled_from([MANIFEST, CONSTRAINTS, "use_constraints_from_spec_for_proxy_pod_scheduling"]), TEXTS
    )
)
def test_whatever_users_write_into_documents_is_taken_or_refused_with_the_field(annotations: dict[str, str]) -> None:
    given = ask(pod(**annotations))
    assert given.outcome in (Outcome.MUTATED, Outcome.REFUSED)
    assert given.outcome is Outcome.MUTATED or "metadata.annotations" in given.explanation


def test_a_second_invocation_changes_nothing() -> None:
    once = patched(pod(), ask(pod()).review)
    again = ask(once)
    assert again.review["response"] == {"uid": "705ab4f5", "allowed": True}


def test_the_namespace_of_the_request_counts_when_the_pod_has_none() -> None:
    sent = pod()
    del sent["metadata"]["namespace"]
    proxy = patched(sent, ask(sent).review)
    assert proxy["metadata"]["namespace"] == "default"
    assert proxy["metadata"]["finalizers"] == FINALIZERS["default"]
    assert source_pod(proxy)["metadata"]["namespace"] == "default"


def test_what_was_sent_is_not_changed() -> None:
    request = read(msgspec.json.encode(review(pod())))
    before = copy.deepcopy(request)
    answer(request, Known())
    assert request == before


def test_a_pod_without_any_target_is_mutated_with_a_warning() -> None:
    sent = pod()
    sent["metadata"]["namespace"] = "elsewhere"
    response = ask(sent).review["response"]
    assert response["allowed"] is True
    assert response["warnings"] == [
        "no Target in namespace elsewhere and no ClusterTarget: the pod stays pending until there is one"
    ]


def test_what_targets_do_not_have_is_a_warning() -> None:
    sent = pod()
    sent["spec"]["serviceAccountName"] = "builder"
    response = ask(sent).review["response"]
    assert response["allowed"] is True
    assert response["warnings"] == ["builder is missing in default"]
    assert "patch" in response


@pytest.mark.parametrize(
    ("annotations", "said"),
    [
        ({"multicluster.admiralty.io/elect": "false"}, 'write multicluster/elect: "false" instead'),
        ({"multicluster.admiralty.io/elect": "", "multicluster/elect": "false"}, "whatever its value"),
        ({"multicluster/elect": "No"}, 'only "false" keeps it'),
    ],
)
def test_a_pod_that_seems_to_opt_out_is_elected_with_a_warning(annotations: dict[str, str], said: str) -> None:
    sent = pod(elected=False)
    sent["metadata"]["annotations"] = annotations
    given = ask(sent)
    (warning,) = given.review["response"]["warnings"]
    assert given.outcome is Outcome.MUTATED
    assert said in warning


def test_who_has_created_a_pod_is_noted_whatever_the_pod_says() -> None:
    sent = pod()
    sent["metadata"]["annotations"]["multicluster/created-by"] = "somebody else"
    user = {"username": "jane", "groups": ["system:authenticated"]}
    proxy = patched(sent, ask(sent, userInfo=user).review)
    assert proxy["metadata"]["annotations"]["multicluster/created-by"] == "jane"
    assert ask(proxy, userInfo=user).review["response"] == {"uid": "705ab4f5", "allowed": True}


def test_the_agent_alone_may_say_who_has_created_a_pod() -> None:
    sent = pod()
    sent["metadata"]["annotations"]["multicluster/created-by"] = "jane"
    for user, noted in (("agent", "jane"), ("joe", "joe")):
        proxy = patched(sent, ask(sent, agent="agent", userInfo={"username": user}).review)
        assert proxy["metadata"]["annotations"]["multicluster/created-by"] == noted
    proxy = patched(pod(), ask(pod(), agent="agent", userInfo={"username": "agent"}).review)
    assert proxy["metadata"]["annotations"]["multicluster/created-by"] == "agent"


@pytest.mark.parametrize("proxied", [False, True], ids=["as sent", "as backed up"])
def test_what_had_become_of_another_pod_does_not_count_for_this_one(proxied: bool) -> None:
    state = {f"multicluster/{key}": "x" for key in ("claim", "claim-uid", "claim-renewed", "attempts")}
    sent = proxy_pod(pod(), ["multicluster.admiralty.io/gone"]) if proxied else pod()
    sent = {**sent, "metadata": {**sent["metadata"], "annotations": {**sent["metadata"]["annotations"], **state}}}
    proxy = patched(sent, ask(sent).review)
    assert not state.keys() & proxy["metadata"]["annotations"].keys()
    assert not state.keys() & source_pod(proxy)["metadata"]["annotations"].keys()
    assert proxy == proxy_pod(pod(), FINALIZERS["default"])


def test_a_pod_that_opts_out_and_names_our_scheduler_is_refused() -> None:
    sent = pod(elected=False)
    sent["metadata"]["annotations"] = {"multicluster/elect": "false"}
    sent["spec"]["schedulerName"] = "admiralty-proxy"
    given = ask(sent)
    assert given.outcome is Outcome.REFUSED
    assert "spec.schedulerName: admiralty-proxy is the scheduler of elected pods" in given.explanation
    assert "remove the field, or the annotation multicluster/elect" in given.explanation


def test_a_bad_annotation_is_refused_with_field_and_remedy() -> None:
    given = ask(pod(no_prefix_label_regexp="("))
    response = given.review["response"]
    status = response["status"]
    field = "metadata.annotations[multicluster.admiralty.io/no-prefix-label-regexp]"
    assert given.outcome is Outcome.REFUSED
    assert response["allowed"] is False
    assert "patch" not in response
    assert (status["status"], status["code"], status["reason"]) == ("Failure", 422, "Invalid")
    assert status["message"].startswith(f"{field}: ")
    assert status["details"]["causes"][0]["field"] == field
    assert status["details"]["name"] == "web"


def test_variables_that_would_copy_a_long_annotation_too_often_are_refused() -> None:
    sent = pod()
    sent["metadata"]["annotations"]["multicluster/note"] = "x" * 60_000
    source = {"fieldRef": {"fieldPath": "metadata.annotations['multicluster/note']"}}
    sent["spec"]["containers"][0]["env"] = [{"name": f"V{index}", "valueFrom": source} for index in range(18)]
    given = ask(sent)
    assert given.outcome is Outcome.REFUSED
    assert given.review["response"]["status"]["details"]["causes"][0]["field"].endswith("env[V17]")
    sent["spec"]["containers"][0]["env"].pop()
    assert ask(sent).outcome is Outcome.MUTATED


def test_a_pattern_that_is_too_much_for_the_labels_is_refused() -> None:
    sent = pod(no_prefix_label_regexp="(?:.{40}x|.{41}x)q")
    sent["metadata"]["labels"] = {f"example.com/label-{index}": "x" * 40 for index in range(300)}
    given = ask(sent)
    assert given.outcome is Outcome.REFUSED
    assert "write a simpler expression" in given.review["response"]["status"]["message"]


def test_a_dry_run_gets_the_same_answer() -> None:
    assert ask(pod(), dryRun=True) == ask(pod())


@pytest.mark.parametrize("obj", [None, [], {"kind": "Service", "metadata": {}}, {"kind": "Pod"}])
def test_what_is_not_a_pod_is_malformed(obj: Any) -> None:
    with pytest.raises(Malformed, match=r"request\.object is not a pod"):
        ask(obj)


def owned(kind: str, api_version: str, **over: Any) -> dict[str, Any]:
    made = pod(elected=False)
    made["metadata"]["ownerReferences"] = [
        {"apiVersion": api_version, "kind": kind, "name": "x", "uid": "u", "controller": True, **over}
    ]
    return made


def placed() -> dict[str, Any]:
    made = pod(elected=False)
    made["spec"]["nodeName"] = "node-1"
    return made


def marked(key: str, value: str) -> dict[str, Any]:
    made = pod(elected=False)
    made["metadata"]["annotations"] = {key: value}
    return made


@pytest.mark.parametrize(
    ("sent", "want"),
    [
        pytest.param(pod(elected=False), Outcome.MUTATED, id="a pod that says nothing"),
        pytest.param(pod(), Outcome.MUTATED, id="a pod that asks for it itself"),
        pytest.param(owned("ReplicaSet", "apps/v1"), Outcome.MUTATED, id="a pod of a ReplicaSet"),
        pytest.param(owned("StatefulSet", "apps/v1"), Outcome.MUTATED, id="a pod of a StatefulSet"),
        pytest.param(owned("Job", "batch/v1"), Outcome.MUTATED, id="a pod of a Job"),
        pytest.param(owned("DaemonSet", "operators.example.com/v1"), Outcome.MUTATED, id="of another DaemonSet"),
        pytest.param(owned("DaemonSet", "apps/v1", controller=False), Outcome.MUTATED, id="owned, not controlled"),
        pytest.param(marked("multicluster/elect", "true"), Outcome.MUTATED, id="short annotation"),
        pytest.param(owned("DaemonSet", "apps/v1"), Outcome.UNTOUCHED, id="a pod of a DaemonSet"),
        pytest.param(owned("PodChaperon", "multicluster.admiralty.io/v1alpha1"), Outcome.UNTOUCHED, id="a delegate"),
        pytest.param(marked("multicluster/elect", "false"), Outcome.UNTOUCHED, id="a pod that opted out"),
        pytest.param(placed(), Outcome.UNTOUCHED, id="a pod created on a node"),
    ],
)
def test_a_namespace_that_elects_by_default_elects(sent: dict[str, Any], want: Outcome) -> None:
    assert ask(sent, by_default=True).outcome is want


def test_an_elected_pod_of_a_daemonset_is_refused_unless_it_keeps_its_node() -> None:
    sent = owned("DaemonSet", "apps/v1")
    sent["metadata"]["annotations"] = {"multicluster/elect": ""}
    given = ask(sent)
    assert given.outcome is Outcome.REFUSED
    assert "remove the annotation multicluster/elect from its template" in given.explanation
    sent["metadata"]["annotations"]["multicluster/use-constraints-from-spec-for-proxy-pod-scheduling"] = ""
    assert ask(sent).outcome is Outcome.MUTATED


def test_election_by_default_makes_the_same_proxy_pod() -> None:
    sent = pod(elected=False)
    proxy = patched(sent, ask(sent, by_default=True).review)
    assert proxy == proxy_pod(sent, FINALIZERS["default"])
    assert source_pod(proxy) == sent
    assert ask(proxy, by_default=True).review["response"] == {"uid": "705ab4f5", "allowed": True}
