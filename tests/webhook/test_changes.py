"""Changes of proxy pods: the webhook's answers, and the results for users of a real API server."""

from typing import Any

import msgspec
import pytest

from agent.api.kinds import PODS
from agent.api.names import ANNOTATION_MANIFEST
from agent.kube.errors import Invalid
from agent.model.proxypod import proxy_pod
from tests.webhook.replica import Place, Raw, elected
from tests.webhook.reviews import patched, pod, review
from webhook.handlers import answer_to_change, takes_long
from webhook.review import Malformed, Outcome

REGION = "topology.kubernetes.io/region"


def proxy() -> Raw:
    sent = pod()
    sent["spec"] |= {"terminationGracePeriodSeconds": 30, "schedulerName": "default-scheduler"}
    return proxy_pod(sent, ())


def ask(new: Any, old: Any, **request: Any) -> Any:
    return answer_to_change(review(new, oldObject=old, operation="UPDATE", **request)["request"])


def test_a_field_that_is_only_repeated_is_given_back() -> None:
    old = proxy()
    new = {**old, "spec": {**old["spec"], "terminationGracePeriodSeconds": 30}}
    given = ask(new, old)
    assert given.outcome is Outcome.MUTATED
    assert patched(new, given.review) == old


@pytest.mark.parametrize("request_", [{"operation": "CREATE"}, {"subResource": "ephemeralcontainers"}], ids=str)
def test_other_requests_are_allowed_as_they_are(request_: Raw) -> None:
    new = {**proxy(), "spec": {**proxy()["spec"], "terminationGracePeriodSeconds": 30}}
    asked = review(new, oldObject=proxy(), **{"operation": "UPDATE", **request_})["request"]
    assert answer_to_change(asked).review["response"] == {"uid": "705ab4f5", "allowed": True}


def test_pods_of_others_and_those_whose_manifest_cannot_be_read_are_left_alone() -> None:
    unreadable = proxy()
    unreadable["metadata"]["annotations"][ANNOTATION_MANIFEST] = "{"
    for old in (pod(), unreadable):
        new = {**old, "spec": {**old["spec"], "terminationGracePeriodSeconds": 7}}
        assert ask(new, old).outcome is Outcome.UNTOUCHED


NO_PODS = ((None, None), (proxy(), None), ({"kind": "Job"}, proxy()))


@pytest.mark.parametrize("objects", NO_PODS, ids=["nothing", "nothing before", "a Job"])
def test_what_is_no_pod_is_malformed(objects: tuple[Any, Any]) -> None:
    with pytest.raises(Malformed):
        ask(*objects)


def test_long_manifests_take_long_whatever_they_begin_with() -> None:
    old = proxy()
    assert not takes_long({"oldObject": old})
    assert not takes_long({"oldObject": None})
    # This is YAML, too, and JSON may contain constraints in YAML.
    old["metadata"]["annotations"][ANNOTATION_MANIFEST] = "{kind: Pod, spec: [" + "a," * 3000 + "]}"
    assert takes_long({"oldObject": old})


SPEC: Raw = {
    "nodeSelector": {REGION: "eu"},
    "tolerations": [{"key": "spot", "operator": "Exists"}],
    "topologySpreadConstraints": [
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    ],
    "affinity": {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}, "podAffinity": {}},
    "terminationGracePeriodSeconds": 5,
    "schedulerName": "default-scheduler",
}


async def change(place: Place, name: str, manifest: Raw, *, style: str) -> Raw:
    """Patch a pod with its manifest, as clients do."""
    content = {"strategic": "application/strategic-merge-patch+json", "apply": "application/apply-patch+yaml"}[style]
    params = {"fieldManager": "argocd", "force": "true"} if style == "apply" else None
    made: Raw = msgspec.json.decode(
        await place.client.session.request(
            "PATCH",
            PODS.path(place.namespace, name),
            params=params,
            body=msgspec.json.encode(manifest),
            content_type=content,
        )
    )
    return made


@pytest.mark.cluster
async def test_a_manifest_may_be_applied_again(place: Place) -> None:
    async with place.replica():
        first = await place.create(elected("web", **SPEC))
        for style in ("strategic", "apply"):
            again = await change(place, "web", elected("web", **SPEC), style=style)
            assert again["spec"] == first["spec"]
            assert again["metadata"].get("generation") == first["metadata"].get("generation")
            if style == "strategic":
                assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
        known = await change(place, "web", elected("web", **SPEC), style="apply")
        once_more = await change(place, "web", elected("web", **SPEC), style="apply")
        assert once_more["metadata"]["resourceVersion"] == known["metadata"]["resourceVersion"]


@pytest.mark.cluster
async def test_of_a_changed_manifest_what_may_change_does_and_the_rest_is_refused(place: Place) -> None:
    async with place.replica():
        first = await place.create(elected("web", **SPEC))
        manifest = elected("web", **SPEC)
        manifest["spec"]["containers"][0]["image"] = "nginx:2"
        manifest["spec"]["tolerations"] = [*SPEC["tolerations"], {"key": "extra", "operator": "Exists"}]
        changed = await change(place, "web", manifest, style="strategic")
        assert changed["spec"]["containers"][0]["image"] == "nginx:2"
        assert changed["spec"]["tolerations"] == [
            *first["spec"]["tolerations"],
            {"key": "extra", "operator": "Exists"},
        ]
        assert changed["spec"]["terminationGracePeriodSeconds"] == 0
        manifest["spec"]["terminationGracePeriodSeconds"] = 6
        with pytest.raises(Invalid, match="pod updates may not change fields"):
            await change(place, "web", manifest, style="strategic")


@pytest.mark.cluster
async def test_pods_are_changed_while_there_is_no_webhook(place: Place) -> None:
    async with place.replica():
        await place.create(elected("web", **SPEC))
    label = {"metadata": {"labels": {"a": "b"}}}
    assert (await place.client.patch(PODS, "web", label, place.namespace))["metadata"]["labels"]["a"] == "b"
    with pytest.raises(Invalid, match="pod updates may not change fields"):
        await change(place, "web", elected("web", **SPEC), style="strategic")
