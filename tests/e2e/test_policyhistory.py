"""The judgement of a history finds a delegate that policies no longer select although it serves."""

from typing import Any

from agent.api.kinds import ENDPOINT_SLICES, NETWORK_POLICIES, PODS, Kind
from agent.api.names import LABEL_PARENT_CLUSTER_UID, LABEL_SERVING, PREFIX
from agent.dependencies.rules import copies
from tests.e2e.policyhistory import POLICIES, judge
from tests.e2e.recorder import Version

Raw = dict[str, Any]
LABELS = {"multicluster/U_app": "web", PREFIX + "app": "web", LABEL_PARENT_CLUSTER_UID: "uid-cd"}
SERVES = {**LABELS, LABEL_SERVING: "true"}
BARE = {key: value for key, value in SERVES.items() if not key.endswith("app")}
CLIENT = {key: "client" if value == "web" else value for key, value in LABELS.items()}


def version(number: int, kind: Kind, name: str, *, deleted: bool = False, **fields: Any) -> Version:
    metadata = {"name": name, "uid": name, "namespace": "team", **fields.pop("metadata", {})}
    return Version(number, kind, {"metadata": metadata, **fields}, deleted)


def pod(number: int, name: str, labels: Raw, *, deleted: bool = False, **metadata: Any) -> Version:
    status = {"conditions": [{"type": "Ready", "status": "True"}]}
    return version(number, PODS, name, deleted=deleted, metadata={"labels": labels, **metadata}, status=status)


def slice_of(number: int, *pods: str) -> Version:
    endpoints = [{"conditions": {"ready": True, "serving": True}, "targetRef": {"uid": each}} for each in pods]
    return version(number, ENDPOINT_SLICES, "web", endpoints=endpoints)


def history(*versions: Version) -> list[Version]:
    """Return these versions after those of the copied policies."""
    copied = []
    for number, (name, spec) in enumerate(POLICIES.items()):
        original = {"metadata": {"name": name, "namespace": "team", "uid": name, "resourceVersion": "1"}, "spec": spec}
        copy = copies.network_policy(original, "cd", "uid-cd")
        copied.append(version(number, NETWORK_POLICIES, name, metadata={}, spec=copy["spec"]))
    return [*copied, *versions]


BORN = (pod(10, "client-1", CLIENT), pod(11, "web-1", SERVES), slice_of(12, "web-1"))
ENDED = (pod(30, "web-1", LABELS, deletionTimestamp="now"), pod(31, "web-1", LABELS, deleted=True))


def test_a_withdrawal_by_a_label_that_no_policy_selects_by_is_right() -> None:
    found = judge(history(*BORN, pod(20, "web-1", LABELS), slice_of(21), *ENDED))
    assert found.faults == []
    assert set(found.served) == found.called == found.withdrawn == found.deleted == {"web-1"}


def test_a_withdrawal_that_takes_off_the_users_labels_is_a_fault() -> None:
    found = judge(history(*BORN, pod(20, "web-1", BARE), slice_of(21), *ENDED))
    assert found.faults[0] == "version 20: web-1 is selected by ['default-deny']"
    assert "version 20: web-1 refuses {'app': 'monitor'}" in found.faults
    assert any(each.startswith("version 20: web-1 refuses {'multicluster/U_app': 'client'") for each in found.faults)


def test_versions_count_in_the_order_of_the_api_server_whatever_watch_shows_them_first() -> None:
    unordered = history(*reversed([*BORN, pod(20, "web-1", LABELS), slice_of(21), *ENDED]))
    assert judge(unordered).withdrawn == {"web-1"}
    assert judge(unordered).faults == []


def test_a_delegate_that_is_deleted_while_services_route_to_it_was_not_withdrawn() -> None:
    found = judge(history(*BORN, *ENDED, slice_of(40)))
    assert found.withdrawn == set()
    assert found.deleted == {"web-1"}


def test_a_policy_that_lets_in_all_is_a_fault() -> None:
    spec = {"podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{}]}
    found = judge(history(version(5, NETWORK_POLICIES, "default-deny", spec=spec), *BORN))
    assert {"version 12: web-1 lets in a stranger"} == {each for each in found.faults if each.startswith("version 12")}
