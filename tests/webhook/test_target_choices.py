"""Messages of the webhook about targets that namespaces, workloads and pods name."""

from typing import Any

import pytest

from agent.api.kinds import DEPLOYMENTS, NAMESPACES, PODS, TARGETS
from agent.kube.errors import Invalid
from agent.model.proxypod import InvalidPod, proxy_pod
from tests.controllers.proxies import elected
from tests.waiting import until
from tests.webhook.replica import Place
from tests.webhook.test_app import target
from tests.webhook.test_warnings import ELECT, workload
from webhook.review import Malformed, Outcome
from webhook.target_choices import of_namespace, of_workload, unknown

Raw = dict[str, Any]

KEY, MOVE = "multicluster/targets", "multicluster/move"


class Known:
    def named(self, namespace: str) -> tuple[set[str], set[str]]:
        assert namespace == "shop"
        return {"us"}, {"eu", "us"}


KNOWN = Known()


def request(before: dict[str, str] | None = None, **values: str) -> Raw:
    def namespace(annotations: dict[str, str]) -> Raw:
        return {"kind": "Namespace", "metadata": {"name": "shop", "annotations": annotations}}

    annotations = {f"multicluster/{key.replace('_', '-')}": value for key, value in values.items()}
    found = {"uid": "u", "namespace": "shop", "operation": "UPDATE", "object": namespace(annotations)}
    return found | ({"oldObject": namespace(before)} if before is not None else {})


def warnings(asked: Raw) -> list[str]:
    answer = of_namespace(asked, KNOWN)
    assert answer.outcome is Outcome.VALID
    return list(answer.review["response"].get("warnings") or ())


def test_a_namespace_names_targets_that_there_are() -> None:
    assert warnings(request(targets="us > eu,clustertarget/us", allowed_targets="!eu")) == []


def test_a_namespace_that_cannot_be_read_is_refused_unless_it_was_so_before() -> None:
    asked = request(targets="us eu", allowed_targets="us > eu")
    answer = of_namespace(asked, KNOWN)
    assert answer.outcome is Outcome.REFUSED
    causes = answer.review["response"]["status"]["details"]["causes"]
    assert [each["field"] for each in causes] == [
        "metadata.annotations[multicluster/targets]",
        "metadata.annotations[multicluster/allowed-targets]",
    ]
    (told,) = warnings(request({KEY: "us eu"}, targets="us eu"))
    assert told.startswith("metadata.annotations[multicluster/targets]: 'us eu' is no name of a target: write")


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("move", "Evict", "'Evict' must be one of surge, evict, never"),
        ("fence", "true", "'true' must be one of lease, none"),
        ("failover_after", "soon", "'soon' must be a duration"),
        ("failover_after", "1s", "must be 10s at least, or never"),
        ("fail_back", "yes", "'yes' must be one of never, auto"),
        ("shutdown_delay", "10s", "must be a whole number of seconds from 0 (none) to 300, not '10s'"),
    ],
)
def test_how_pods_move_has_to_be_said_so_that_it_can_be_read(key: str, value: str, says: str) -> None:
    field = f"metadata.annotations[multicluster/{key.replace('_', '-')}]"
    answer = of_namespace(request(**{key: value}), KNOWN)
    assert answer.outcome is Outcome.REFUSED
    (cause,) = answer.review["response"]["status"]["details"]["causes"]
    assert (cause["field"], says in cause["message"], "remove it" in cause["message"]) == (field, True, True)
    (told,) = of_workload(request(**{key: value}), KNOWN)
    assert told.startswith(f"{field}: ")
    (kept,) = warnings(request({f"multicluster/{key.replace('_', '-')}": value}, **{key: value}))
    assert kept == told
    pod = elected("web", "shop")
    pod["metadata"]["annotations"][f"multicluster/{key.replace('_', '-')}"] = value
    with pytest.raises(InvalidPod) as caught:
        proxy_pod(pod, [])
    assert caught.value.field == field


def test_names_that_no_target_has_are_a_warning() -> None:
    (told,) = warnings(request(targets="us > mars", allowed_targets="!pluto"))
    assert told == (
        "multicluster/targets and multicluster/allowed-targets: no Target in namespace shop and no ClusterTarget is"
        " called mars, pluto: see that it is spelt as its Target is, or create that"
    )
    assert unknown({"multicluster/placement": "web"}, "elsewhere", KNOWN) == []


def test_a_workload_is_warned_of_both() -> None:
    flawed, strange = of_workload(request(targets="us eu"), KNOWN), of_workload(request(targets="mars"), KNOWN)
    assert [each.partition(":")[0] for each in (*flawed, *strange)] == [
        "metadata.annotations[multicluster/targets]",
        "multicluster/targets",
    ]


FILTER = "p2code.filter.region"


def asking(before: dict[str, str] | None = None, **filters: str) -> Raw:
    asked = request(before)
    asked["object"]["metadata"]["annotations"] = {f"p2code.filter{key}": value for key, value in filters.items()}
    return asked


@pytest.mark.parametrize(
    ("key", "value", "says"),
    [
        ("", "south", "names no feature: write p2code.filter.FEATURE"),
        ("region", "south", "names no feature: write p2code.filter.FEATURE"),
        (".region", "", "has no value: write the one that the claim of a cluster has to have, or remove it"),
        (".region", "x" * 1025, "has 1025 characters, and no claim has more than 1024"),
    ],
)
def test_a_filter_that_no_claim_can_match_is_refused_of_namespaces_and_pods(key: str, value: str, says: str) -> None:
    field = f"metadata.annotations[p2code.filter{key}]"
    answer = of_namespace(asking(**{key: value}), KNOWN)
    assert answer.outcome is Outcome.REFUSED
    (cause,) = answer.review["response"]["status"]["details"]["causes"]
    assert (cause["field"], cause["message"].partition(says)[1]) == (field, says)
    (kept,) = warnings(asking({f"p2code.filter{key}": value}, **{key: value}))
    assert kept.startswith(f"{field}: ")
    pod = elected("web", "shop")
    pod["metadata"]["annotations"][f"p2code.filter{key}"] = value
    with pytest.raises(InvalidPod) as caught:
        proxy_pod(pod, [])
    assert caught.value.field == field


def test_a_filter_is_taken_and_of_a_workload_itself_a_warning_says_where_it_counts() -> None:
    asked = asking(**{".region": "south"})
    assert warnings(asked) == []
    (told,) = of_workload(asked, KNOWN)
    assert told.startswith(f"metadata.annotations[{FILTER}]: counts for nothing here: write it into the annotations")


def test_what_is_no_namespace_is_malformed() -> None:
    with pytest.raises(Malformed, match="no Namespace"):
        of_namespace({"uid": "u", "object": {"kind": "Pod"}}, KNOWN)


def test_a_pod_that_cannot_be_read_is_refused() -> None:
    pod = elected("web", "shop")
    pod["metadata"]["annotations"][KEY] = "us,!eu"
    with pytest.raises(InvalidPod, match="both names targets and excludes some") as caught:
        proxy_pod(pod, [])
    assert caught.value.field == "metadata.annotations[multicluster/targets]"


@pytest.mark.cluster
async def test_a_real_api_server_asks_about_namespaces_workloads_and_pods(place: Place) -> None:
    await place.client.create(TARGETS, target(TARGETS, "us", place.namespace))
    async with place.replica():

        async def refuses() -> bool:
            try:
                await say("us eu")
            except Invalid as error:
                return "is no name of a target" in str(error)
            # The request was accepted; the webhook would no longer refuse the existing value.
            await say(None)
            return False

        async def say(targets: str | None) -> None:
            await place.client.patch(NAMESPACES, place.namespace, {"metadata": {"annotations": {KEY: targets}}})

        await until(refuses, what="the API server asks about namespaces")
        await say("us > !us")
        with pytest.raises(Invalid, match="must be one of surge, evict, never"):
            await place.client.patch(NAMESPACES, place.namespace, {"metadata": {"annotations": {MOVE: "no"}}})
        await say(None)
        with pytest.raises(Invalid, match="has no value"):
            await place.client.patch(NAMESPACES, place.namespace, {"metadata": {"annotations": {FILTER: ""}}})
        await place.client.patch(NAMESPACES, place.namespace, {"metadata": {"annotations": {FILTER: "south"}}})
        plain = workload(DEPLOYMENTS, **{ELECT: ""})
        plain["spec"]["template"]["spec"].pop("serviceAccountName")
        plain["metadata"]["annotations"] = {KEY: "mars"}
        (told,) = await place.warnings(DEPLOYMENTS, plain)
        assert f"no Target in namespace {place.namespace} and no ClusterTarget is called mars" in told
        pod = elected("web", place.namespace)
        pod["metadata"]["annotations"][KEY] = "us"
        await place.client.create(PODS, pod)
        with pytest.raises(Invalid, match="is no name of a target"):
            await place.client.patch(PODS, "web", {"metadata": {"annotations": {KEY: "us eu"}}}, place.namespace)
        terms = {"metadata": {"annotations": {"multicluster/failover-after": "1s"}}}
        with pytest.raises(Invalid, match="must be 10s at least"):
            await place.client.patch(PODS, "web", terms, place.namespace)
        rest = {"metadata": {"annotations": {KEY: ""}, "finalizers": None}}
        await place.client.patch(PODS, "web", rest, place.namespace)
