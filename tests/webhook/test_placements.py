"""Cluster sets and Placements: permission to bind and join a set, and warnings about ineffective annotations."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from agent.api.kinds import (
    MANAGED_CLUSTER_SET_BINDINGS,
    MANAGED_CLUSTERS,
    NAMESPACES,
    PLACEMENTS,
    Kind,
)
from agent.api.names.ocm import LABEL_CLUSTER_SET
from agent.kube.errors import Forbidden, Invalid
from tests.ocm import object_of
from tests.waiting import until
from tests.webhook.replica import Place, elected
from webhook import placements
from webhook.review import Answer, Malformed, Outcome

Raw = dict[str, Any]


def obj(
    kind: Kind, name: str = "web", *, annotations: Raw | None = None, labels: Raw | None = None, **spec: Any
) -> Raw:
    return object_of(kind, name, metadata={"annotations": annotations or {}, "labels": labels or {}}, spec=spec)


def request(after: Raw, before: Raw | None = None) -> Raw:
    return {
        "uid": "1",
        "operation": "UPDATE" if before else "CREATE",
        "object": after,
        "oldObject": before,
        "userInfo": {"username": "ann"},
    }


def warnings(answer: Answer) -> list[str]:
    return list(answer.review["response"].get("warnings") or [])


def placement(**annotations: str) -> Raw:
    return obj(PLACEMENTS, annotations={f"multicluster/{key.replace('_', '-')}": v for key, v in annotations.items()})


def namespace(**annotations: str) -> Raw:
    return placement(**annotations) | {"apiVersion": "v1", "kind": "Namespace"}


@pytest.mark.parametrize(
    "made",
    [
        placement(),
        placement(when_unplaced="stay", keep_decided="true", evaluate="false"),
        placement(when_unplaced="move"),
        placement(somebody_elses="?"),
    ],
)
def test_annotations_of_placements_that_mean_something_are_taken(made: Raw) -> None:
    assert placements.of_placement(request(made)).outcome is Outcome.VALID


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (placement(when_unplaced="evict"), "metadata.annotations[multicluster/when-unplaced]: must be stay or move"),
        (placement(keep_decided="yes"), "metadata.annotations[multicluster/keep-decided]: must be true or false"),
        (placement(evaluate=""), "metadata.annotations[multicluster/evaluate]: must be true or false, not ''"),
    ],
)
def test_annotations_of_placements_that_mean_nothing_are_refused_unless_they_were_there(
    made: Raw, message: str
) -> None:
    answer = placements.of_placement(request(made))
    assert answer.outcome is Outcome.REFUSED
    assert answer.explanation.startswith(message)
    assert "; remove it for " in answer.explanation
    later = placements.of_placement(request(made, made))
    assert later.outcome is Outcome.VALID
    assert warnings(later)[0].startswith(message)


def test_a_namespace_names_a_placement_or_is_refused() -> None:
    assert warnings(placements.of_namespace(request(namespace(placement="web", placement_group="canary")))) == []
    answer = placements.of_namespace(request(namespace(placement="shop/web")))
    assert answer.outcome is Outcome.REFUSED
    assert "metadata.annotations[multicluster/placement]: 'shop/web' can be no Placement's name" in answer.explanation
    (warning,) = warnings(placements.of_namespace(request(namespace(placement_group="canary"))))
    assert "the namespace names none" in warning


@pytest.mark.parametrize("judge", [placements.of_placement, placements.of_namespace])
@pytest.mark.parametrize("wrong", [None, {"kind": "Pod"}, obj(PLACEMENTS) | {"kind": "Secret"}])
def test_what_is_neither_is_malformed(judge: Any, wrong: Any) -> None:
    with pytest.raises(Malformed):
        judge({"uid": "1", "operation": "CREATE", "object": wrong})


def cluster_of(set_name: str | None) -> Raw:
    labels = {LABEL_CLUSTER_SET: set_name} if set_name else {}
    return obj(MANAGED_CLUSTERS, "c2", labels=labels, hubAcceptsClient=True)


def binding(set_name: str, name: str | None = None) -> Raw:
    return obj(MANAGED_CLUSTER_SET_BINDINGS, name or set_name, clusterSet=set_name)


@pytest.fixture
async def guarded(place: Place, placement_kinds: None) -> AsyncIterator[Place]:
    """Run a webhook that is called for sets, and create a user who may bind and join only the set `prod`."""
    group = MANAGED_CLUSTERS.group
    rules = [
        {"apiGroups": [group], "resources": ["managedclusters", "managedclustersetbindings"], "verbs": ["create"]},
        {
            "apiGroups": [group],
            "resources": ["managedclustersets/bind", "managedclustersets/join"],
            "resourceNames": ["prod"],
            "verbs": ["create"],
        },
    ]
    async with place.replica("--placements"), place.user("ann", rules):
        await until(lambda: asked(place), what="the API server asks about sets")
        yield place


async def asked(place: Place) -> bool:
    """Return whether the user exists and the webhook is called for sets."""
    try:
        await place.warnings(MANAGED_CLUSTER_SET_BINDINGS, binding("prod", "other"), user="ann")
    except Invalid:
        return True
    except Forbidden:
        return False
    return False


@pytest.mark.cluster
async def test_who_binds_and_joins_sets_needs_the_right_to_as_open_cluster_management_has_it(guarded: Place) -> None:
    assert await guarded.warnings(MANAGED_CLUSTER_SET_BINDINGS, binding("prod"), user="ann") == []
    assert await guarded.warnings(MANAGED_CLUSTERS, cluster_of("prod"), user="ann") == []
    assert await guarded.warnings(MANAGED_CLUSTERS, cluster_of(None), user="ann") == []
    with pytest.raises(
        Forbidden, match=r"user 'ann' is not allowed to bind cluster set 'dev': .*managedclustersets/bind"
    ):
        await guarded.warnings(MANAGED_CLUSTER_SET_BINDINGS, binding("dev"), user="ann")
    with pytest.raises(Forbidden, match=r"add/remove a ManagedCluster to/from ManagedClusterSet 'dev'.*sets/join"):
        await guarded.warnings(MANAGED_CLUSTERS, cluster_of("dev"), user="ann")
    with pytest.raises(Invalid, match=r"spec\.clusterSet: must be the name of the binding, 'prod', not 'dev'"):
        await guarded.warnings(MANAGED_CLUSTER_SET_BINDINGS, binding("dev", "prod"), user="ann")
    # Administrators may, and existing members of a set are not checked again.
    await guarded.client.create(MANAGED_CLUSTERS, cluster_of("dev"))
    changed = await guarded.client.patch(MANAGED_CLUSTERS, "c2", {"metadata": {"labels": {"tier": "gold"}}})
    assert changed["metadata"]["labels"] == {LABEL_CLUSTER_SET: "dev", "tier": "gold"}
    with pytest.raises(Invalid, match=r"when-unplaced.*must be stay or move"):
        await guarded.client.create(PLACEMENTS, placement(when_unplaced="evict"), guarded.namespace)
    patch = {"metadata": {"annotations": {"multicluster/placement": "a b"}}}
    with pytest.raises(Invalid, match="'a b' can be no Placement's name"):
        await guarded.client.patch(NAMESPACES, guarded.namespace, patch)


@pytest.mark.cluster
async def test_a_pod_that_names_what_can_be_no_placement_is_refused(place: Place) -> None:
    async with place.replica():
        with pytest.raises(Invalid, match="can be no Placement's name: write that of one in this namespace"):
            await place.create(elected(annotations={"multicluster/placement": "shop/web"}))
        await place.create(elected(annotations={"multicluster/placement": "web"}))
