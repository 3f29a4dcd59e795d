"""Originals that pods request, in a namespace with many pods: an event is compared with the other pods once."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.api import names
from agent.api.kinds import NAMESPACES, NETWORK_POLICIES, PODS, ROLE_BINDINGS, ROLES
from agent.dependencies.rules import NetworkPolicyController, RoleController
from agent.dependencies.rules.opt_in import OptInController
from agent.dependencies.rules.selections import Selections
from agent.kube.store import Object
from agent.ranking.pod_terms import Selector, selector
from tests.controllers.offline import Offline, offline, quiet

MANY = 60
TEAM = {"labels": {names.LABEL_ENABLED: names.ENABLED_VALUE}}


@pytest.fixture
def compared(monkeypatch: pytest.MonkeyPatch) -> list[Selector]:
    """Selectors that were compared with a pod."""
    found: list[Selector] = []
    matches = Selector.matches

    def counted(self: Selector, labels: Any) -> bool:
        found.append(self)
        return matches(self, labels)

    monkeypatch.setattr(Selector, "matches", counted)
    return found


def put_pod(cluster: Offline, name: str, asked: str, app: str, **spec: Any) -> None:
    metadata = {"labels": {"app": app}, "annotations": {names.SHORT_PREFIX + asked: "true"}}
    cluster.put(cluster.deps.proxies.informer, PODS, name, "team", metadata=metadata, spec=spec)


def shared(controller: OptInController) -> set[str]:
    return {each.name for each in controller.originals.store if controller.shared(each)}


async def test_a_pod_is_compared_with_each_policy_once_and_a_policy_with_each_pod_once(
    compared: list[Selector],
) -> None:
    async with offline(NetworkPolicyController) as (cluster, controller):
        cluster.put(controller.deps.namespaces.informer, NAMESPACES, "team", metadata=TEAM)
        for number in range(MANY):
            spec = {"podSelector": {"matchLabels": {"app": f"other{number}"}}}
            cluster.put(controller.originals, NETWORK_POLICIES, f"policy{number}", "team", spec=spec)
        for number in range(MANY):
            put_pod(cluster, f"pod{number}", names.FOLLOW_POLICIES, f"app{number}")
        await quiet(controller)
        assert len(compared) <= MANY * MANY
        assert not shared(controller)

        compared.clear()
        put_pod(cluster, "new", names.FOLLOW_POLICIES, "other7")
        await quiet(controller)
        assert shared(controller) == {"policy7"}
        assert len(compared) <= MANY
        compared.clear()
        for number in range(MANY):
            put_pod(cluster, f"replica{number}", names.FOLLOW_POLICIES, "other7")
        await quiet(controller)
        assert not compared, "pods with equal labels are one"

        spec = {"podSelector": {"matchLabels": {"app": "app3"}}}
        cluster.put(controller.originals, NETWORK_POLICIES, "policy3", "team", spec=spec)
        await quiet(controller)
        assert shared(controller) == {"policy3", "policy7"}
        assert len(compared) <= MANY + 1


async def test_copies_are_brought_in_line_where_an_answer_has_changed_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looked: list[tuple[str, str, str]] = []
    monkeypatch.setattr(NetworkPolicyController, "_copies_of", lambda controller, *key: looked.append(("", *key)) or ())
    async with offline(NetworkPolicyController) as (cluster, controller):
        cluster.put(controller.deps.namespaces.informer, NAMESPACES, "team", metadata=TEAM)
        for name in ("web", "db"):
            cluster.put(
                controller.originals,
                NETWORK_POLICIES,
                name,
                "team",
                spec={"podSelector": {"matchLabels": {"app": name}}},
            )
        await quiet(controller)
        looked.clear()
        put_pod(cluster, "first", names.FOLLOW_POLICIES, "web")
        await quiet(controller)
        put_pod(cluster, "second", names.FOLLOW_POLICIES, "web")
        await quiet(controller)
        assert looked == [("", "team", "web")]
        cluster.delete(controller.deps.proxies.informer, "first", "team")
        await quiet(controller)
        assert looked == [("", "team", "web")]
        cluster.delete(controller.deps.proxies.informer, "second", "team")
        await quiet(controller)
        assert looked == [("", "team", "web")] * 2
        cluster.delete(controller.originals, "db", "team")
        await quiet(controller)
        assert looked[2:] == [("", "team", "db")]


async def test_the_copies_of_a_deleted_policy_are_deleted_also_if_its_namespace_changes_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    enqueued: list[str] = []
    monkeypatch.setattr(
        NetworkPolicyController, "_copies_of", lambda controller, namespace, name: enqueued.append(name) or ()
    )
    async with offline(NetworkPolicyController) as (cluster, controller):
        cluster.put(controller.deps.namespaces.informer, NAMESPACES, "team", metadata=TEAM)
        for name in ("web", "db"):
            cluster.put(controller.originals, NETWORK_POLICIES, name, "team", spec={"podSelector": {}})
        put_pod(cluster, "pod", names.FOLLOW_POLICIES, "web")
        await quiet(controller)
        enqueued.clear()
        cluster.delete(controller.originals, "db", "team")
        cluster.put(controller.deps.namespaces.informer, NAMESPACES, "team")
        await quiet(controller)
        assert sorted(enqueued) == ["db", "web"]


async def test_a_role_is_shared_while_a_binding_gives_it_to_the_account_of_a_pod_that_asks() -> None:
    async with offline(RoleController) as (cluster, controller):
        bindings = controller.deps.local.informer(ROLE_BINDINGS)

        def bind(name: str, role: str, account: str) -> None:
            reference = {"kind": "Role", "name": role}
            subjects = [{"kind": "ServiceAccount", "name": account}]
            cluster.put(bindings, ROLE_BINDINGS, name, "team", roleRef=reference, subjects=subjects)

        cluster.put(controller.deps.namespaces.informer, NAMESPACES, "team", metadata=TEAM)
        for role in ("reader", "writer"):
            cluster.put(controller.originals, ROLES, role, "team", rules=[])
        bind("one", "reader", "builder")
        put_pod(cluster, "pod", names.FOLLOW_ROLES, "app", serviceAccountName="builder")
        await quiet(controller)
        assert shared(controller) == {"reader"}
        bind("two", "writer", "builder")
        await quiet(controller)
        assert shared(controller) == {"reader", "writer"}
        bind("one", "reader", "tester")
        cluster.delete(bindings, "two", "team")
        await quiet(controller)
        assert not shared(controller)


NAMES = st.sampled_from("abcde")
LABELS = st.dictionaries(st.sampled_from("xyz"), st.sampled_from("12"))
STEPS = st.lists(
    st.tuples(st.just("pod"), NAMES, st.none() | LABELS)
    | st.tuples(st.just("policy"), NAMES, st.none() | LABELS)
    | st.tuples(st.just("update"), st.integers(0, 40), st.none())
)


@given(STEPS)
def test_counts_agree_with_a_comparison_of_everything_also_after_an_update_that_was_broken_off(
    steps: list[Any],
) -> None:
    policies: dict[str, Object] = {}
    pods: dict[str, dict[str, str]] = {}
    wanted: dict[str, Selector] = {}
    found = Selections(lambda original: wanted[original.name])
    for number, (what, which, labels) in enumerate(steps):
        if what == "pod":
            found.pod(which, labels)
            pods.pop(which, None)
            pods |= {which: labels} if labels is not None else {}
        elif what == "policy":
            policies.pop(which, None)
            if labels is not None:
                wanted[which] = selector({"matchLabels": labels})
                head = b'{"metadata":{"name":"%s","resourceVersion":"%d"}}' % (which.encode(), number)
                policies[which] = Object(NETWORK_POLICIES, head)
            found.original(which, policies.get(which))
        else:
            counting = found.update()
            if any(step == which for step, _ in enumerate(counting)):
                counting.close()
                for name, each in policies.items():
                    found.original(name, each)
    for _ in found.update():
        pass
    for name, policy in policies.items():
        assert found.is_current(policy)
        assert found.selects(name) == any(wanted[name].matches(labels) for labels in pods.values())
    assert found.empty == (not pods and not policies and not found.changed())
