"""Decisions about members without a cluster: identities, approvals, rights, order of cleanup, health."""

import base64
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from agent.api.kinds import MANAGED_CLUSTER_SETS, MANIFEST_WORKS
from agent.hub import health
from agent.hub.approval import Accepts, Renews, Waits, decide, token_of
from agent.hub.cleanup import Remaining, priority
from agent.hub.identities import Unrecognised, is_pending, read
from agent.hub.registration import asks_otherwise
from agent.hub.rights import places, steps, wanted, works_binding
from agent.kube.store import Object
from tests.registrationagent import COMMON, RegistrationAgent

Raw = dict[str, Any]

NOW = datetime(2026, 1, 1, tzinfo=UTC)
AVAILABLE = "ManagedClusterConditionAvailable"
GROUP = "system:bootstrappers:managedcluster"


def agent(cluster: str = "us", name: str = "a") -> RegistrationAgent:
    return RegistrationAgent(cluster, {}, {}, agent=name)


def cluster(*conditions: Raw, accepts: bool = False, **metadata: Any) -> Raw:
    return {
        "metadata": {"name": "us", **metadata},
        "spec": {"hubAcceptsClient": accepts},
        "status": {"conditions": list(conditions)},
    }


def condition(type: str, status: str = "True", reason: str = "R") -> Raw:
    return {
        "type": type,
        "status": status,
        "reason": reason,
        "message": "",
        "lastTransitionTime": "2025-01-01T00:00:00Z",
    }


def with_content(content: bytes) -> Raw:
    manifest = agent().manifest()
    manifest["spec"]["request"] = base64.b64encode(content).decode()
    return manifest


def der(tag: int, content: bytes) -> bytes:
    size = len(content)
    length = [size] if size < 128 else [0x81, size] if size < 256 else [0x82, size >> 8, size & 255]
    return bytes([tag, *length]) + content


def request_of(subject: bytes, attributes: bytes) -> bytes:
    """Return a PEM request of an agent with another subject, if one is given, and with attributes."""
    made = x509.load_pem_x509_csr(base64.b64decode(agent().manifest()["spec"]["request"]))
    key = made.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    asked = der(0x02, b"\x00") + (subject or made.subject.public_bytes()) + key + der(0xA0, attributes)
    algorithm = der(0x30, bytes.fromhex("06082a8648ce3d040302"))
    content = der(0x30, der(0x30, asked) + algorithm + der(0x03, b"\x00" + made.signature))
    lines = base64.encodebytes(content)
    return b"-----BEGIN CERTIFICATE REQUEST-----\n" + lines + b"-----END CERTIFICATE REQUEST-----\n"


def test_the_identity_of_a_request_is_that_of_its_agent() -> None:
    made = agent("us", "a")
    found = read(made.manifest())
    assert (found.cluster, found.agent, found.user, found.key) == ("us", "a", f"{COMMON}:us:a", made.fingerprint)


@pytest.mark.parametrize(
    "changes",
    [
        {"user": f"{COMMON}:us"},
        {"user": f"{COMMON}:us:"},
        {"user": f"{COMMON}:us:a:b"},
        {"user": f"{COMMON}:us-east:a"},
        {"user": "us:a"},
        {"label": "us-east"},
        {"organisations": (f"{COMMON}:us", "system:masters")},
        {"organisations": (f"{COMMON}:us", f"{COMMON}:eu", f"{COMMON}:managed-clusters")},
        {"organisations": (f"{COMMON}:managed-clusters",)},
        {"usages": ("client auth", "server auth")},
        {"hosts": ("us.example",)},
    ],
)
def test_a_request_with_another_identity_is_not_recognised(changes: Raw) -> None:
    with pytest.raises(Unrecognised):
        read(agent().manifest(**changes))


@pytest.mark.parametrize("content", [b"", b"nonsense", b"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n", b"x" * 20000])
def test_a_request_without_a_readable_content_is_not_recognised(content: bytes) -> None:
    with pytest.raises(Unrecognised):
        read(with_content(content))


@pytest.mark.parametrize("form", ["x{good}{other}", "{other}{good}", "{good}{other}", "x{good}", "{new}{good}"])
def test_a_request_is_one_block_so_that_nothing_else_is_signed(form: str) -> None:
    # Kubernetes skips a block whose first line does not begin with its dashes, and signs the next.
    good, other = (base64.b64decode(agent(name).manifest()["spec"]["request"]).decode() for name in ("us", "eu"))
    new = good.replace("CERTIFICATE", "NEW CERTIFICATE")
    with pytest.raises(Unrecognised, match="one block and nothing else"):
        read(with_content(form.format(good=good, other=other, new=new).encode()))


@pytest.mark.parametrize(("tag", "value"), [(0x02, b"\x01"), (0x03, b"\x00a"), (0x0C, b"\xff"), (0x1E, b"a")])
def test_a_request_with_an_unreadable_name_is_not_recognised(tag: int, value: bytes) -> None:
    name = der(0x30, der(0x31, der(0x30, bytes.fromhex("0603550403") + der(tag, value))))
    with pytest.raises(Unrecognised, match="no PEM certificate request"):
        read(with_content(request_of(name, b"")))


def test_alternative_names_in_a_second_attribute_are_not_recognised() -> None:
    name = der(0x30, bytes.fromhex("0603551d11") + der(0x04, der(0x30, der(0x82, b"us.example"))))
    both = b"".join(
        der(0x30, bytes.fromhex("06092a864886f70d01090e") + der(0x31, der(0x30, each))) for each in (b"", name)
    )
    with pytest.raises(Unrecognised, match="asks for extensions"):
        read(with_content(request_of(b"", both)))


@pytest.mark.parametrize("requester", [f"{COMMON}:eu:a", f"{COMMON}:us-east:a", f"{COMMON}:managed-clusters"])
def test_a_member_asks_for_no_other_cluster(requester: str) -> None:
    manifest = agent().manifest()
    manifest["spec"]["username"] = requester
    with pytest.raises(Unrecognised, match="which is an agent of another member"):
        read(manifest)


def test_a_request_is_pending_until_it_is_decided() -> None:
    manifest = agent().manifest()
    assert is_pending(manifest)
    for each in ("Approved", "Denied", "Failed"):
        assert not is_pending({**manifest, "status": {"conditions": [condition(each)]}})


def test_only_the_very_same_user_renews() -> None:
    identity = read(agent("us", "a").manifest())
    assert isinstance(decide(identity, {"username": f"{COMMON}:us:a"}, None, None), Renews)
    for other in (f"{COMMON}:us:b", f"{COMMON}:us", "system:bootstrap:abcdef"):
        assert isinstance(decide(identity, {"username": other}, cluster(), None), Waits)


@pytest.mark.parametrize(
    ("there", "reason"),
    [
        (None, "NoManagedCluster"),
        (cluster(deletionTimestamp="2026-01-01T00:00:00Z"), "ClusterIsDeleted"),
        (cluster(labels={"multicluster/ours": "true"}), "NameTaken"),
        (cluster(condition("HubAcceptedManagedCluster"), condition("ManagedClusterJoined"), accepts=True), "NameTaken"),
        (cluster(accepts=True), "WaitsForAcceptance"),
        (cluster(), "WaitsForAcceptance"),
    ],
)
def test_every_request_that_waits_has_a_reason(there: Raw | None, reason: str) -> None:
    found = decide(read(agent().manifest()), {"username": "system:bootstrap:abcdef"}, there, None)
    assert isinstance(found, Waits)
    assert found.reason == reason


def test_a_token_accepts_only_the_cluster_of_its_name_that_nobody_has_decided_about() -> None:
    identity, spec = read(agent().manifest()), {"username": "system:bootstrap:abcdef"}
    token = {"metadata": {"annotations": {"multicluster/accepts": "us"}}}
    assert isinstance(decide(identity, spec, cluster(), token), Accepts)
    other = {"metadata": {"annotations": {"multicluster/accepts": "eu"}}}
    used = {"open-cluster-management.io/automatically-accepted-on": "2026-01-01T00:00:00Z"}
    for there, given in (
        (cluster(), other),
        (cluster(accepts=True), token),
        (cluster(annotations=used), token),
        (cluster(condition("HubAcceptedManagedCluster", "False")), token),
    ):
        assert isinstance(decide(identity, spec, there, given), Waits)


def test_a_token_counts_for_a_name_by_its_group_alone() -> None:
    spec = {"username": "system:bootstrap:abcdef", "groups": [GROUP, f"{GROUP}:us"]}
    assert (token_of(spec, "us"), token_of(spec, "eu")) == ("abcdef", "")
    assert token_of({**spec, "username": "system:serviceaccount:a:b"}, "us") == ""


def test_rights_of_one_user_replace_those_of_the_groups() -> None:
    for place, obj in wanted("us", "accepted", only=f"{COMMON}:us:b").items():
        if place != places("us")[0]:
            assert [(each["kind"], each["name"]) for each in obj["subjects"]] == [("User", f"{COMMON}:us:b")]


def existing(state: Any) -> dict[Any, Raw]:
    return {place: {**obj, "metadata": {**obj["metadata"], "uid": "u"}} for place, obj in wanted("us", state).items()}


def test_rights_need_no_write_if_they_are_as_they_should_be() -> None:
    assert steps("us", wanted("us", "accepted"), existing("accepted"), works=True) == []


def test_denial_takes_the_rights_before_it_deletes_the_bindings() -> None:
    found = steps("us", wanted("us", "denied"), existing("accepted"), works=True)
    assert [(each.verb, each.place) for each in found] == [
        ("patch", places("us")[0]),
        ("delete", places("us")[2]),
        ("delete", works_binding("us")),
    ]


@pytest.mark.parametrize(
    ("state", "works", "released"), [("gone", True, False), ("gone", False, True), ("accepted", True, True)]
)
def test_a_binding_that_is_deleted_stays_while_works_need_it(state: Any, works: bool, released: bool) -> None:
    there = existing("accepted")
    there[works_binding("us")]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    found = [each for each in steps("us", wanted("us", state), there, works=works) if each.place == works_binding("us")]
    assert [each.verb for each in found] == ["patch"] * released


def test_objects_of_the_lowest_priority_are_deleted_first() -> None:
    key = "open-cluster-management.io/cleanup-priority"

    def one(name: str, value: str | None, **more: Any) -> Raw:
        return {"metadata": {"name": name, "annotations": {key: value} if value else {}, **more}}

    assert [priority(one("a", value)) for value in (None, "0", "100", "101", "-1", "x", "١", "9" * 9)] == [
        *(0, 0, 100, 0, 0, 0, 0, 0)
    ]
    going = one("c", None, deletionTimestamp="2026-01-01T00:00:00Z", finalizers=["f"])
    remaining = Remaining(MANIFEST_WORKS, [one("a", "5"), one("b", None), going])
    assert [each["metadata"]["name"] for each in remaining.next()] == ["b"]
    status, reason, message = remaining.condition(abandoned=False)
    text = "The resource manifestworks is remaning, the remaining count is 3, the finalizer pending count is 1"
    assert (status, reason) == ("False", "ResourceRemaining")
    assert message.startswith(f"{text}: c waits for f; if the cluster will not come back")


def lease(silent: float, *, is_new: bool = False, duration: int = 0, ahead: float = 0.0) -> health.Lease:
    return health.Lease(NOW - timedelta(seconds=silent - ahead), silent, duration, is_new)


def told(there: Raw, of: health.Lease | None, type: str = AVAILABLE) -> str:
    found = next((each for each in health.conditions(there, of, NOW) if each["type"] == type), {"status": ""})
    return str(found["status"])


def test_a_member_is_lost_after_five_renewals_that_are_missing() -> None:
    there = cluster(condition(AVAILABLE), accepts=True)
    assert [told(there, lease(silent)) for silent in (0, 299, 300)] == ["True", "True", "Unknown"]
    assert [told(there, lease(silent, duration=8)) for silent in (39, 40)] == ["True", "Unknown"]
    # An agent cannot announce fewer renewals than the hub asks for.
    assert told(there, lease(300, duration=10**9)) == "Unknown"


def test_a_lost_member_is_back_with_a_renewal_and_not_before() -> None:
    there = cluster(condition(AVAILABLE, "Unknown", "ManagedClusterLeaseUpdateStopped"), accepts=True)
    assert told(there, lease(0)) == "Unknown"
    assert told(there, lease(0, is_new=True)) == "True"
    unknown = cluster(condition(AVAILABLE, "Unknown", "SaidByTheAgent"), accepts=True)
    assert told(unknown, lease(0, is_new=True)) == "Unknown"


def test_a_deleted_member_without_a_lease_is_unknown_at_once() -> None:
    there = cluster(condition(AVAILABLE), deletionTimestamp="2026-01-01T00:00:00Z")
    assert told(there, None) == "Unknown"
    assert told(cluster(condition(AVAILABLE)), None) == "True"


def test_the_clock_is_judged_by_renewals_alone() -> None:
    type, there = "ManagedClusterConditionClockSynced", cluster(condition(AVAILABLE))
    assert told(there, lease(0, is_new=True, ahead=299), type) == "True"
    assert told(there, lease(0, is_new=True, ahead=301), type) == "False"
    assert told(there, lease(0, is_new=True, ahead=-301), type) == "False"
    skipped = cluster(annotations={"registration.open-cluster-management.io/skip-clock-sync-check": "true"})
    assert told(skipped, lease(0, is_new=True, ahead=301), type) == "True"


def test_a_lease_without_a_time_expires_too() -> None:
    there = cluster(condition(AVAILABLE), accepts=True)
    for spec in ({}, {"renewTime": None}, {"renewTime": "never"}):
        assert told(there, health.read({"spec": spec}, 299, is_new=False)) == "True"
        assert told(there, health.read({"spec": spec}, 300, is_new=False)) == "Unknown"
        assert told(there, health.read({"spec": spec}, 0, is_new=True), "ManagedClusterConditionClockSynced") == "False"


def test_members_are_not_looked_at_again_when_only_the_status_of_their_set_changes() -> None:
    def made(namespaces: list[Raw], message: str) -> Object:
        spec, status = {"managedNamespaces": namespaces}, {"conditions": [{"message": message}]}
        raw = json.dumps({"metadata": {"name": "s"}, "spec": spec, "status": status}).encode()
        return Object(MANAGED_CLUSTER_SETS, raw)

    before = made([], "1 ManagedClusters selected")
    assert not asks_otherwise(before, made([], "2 ManagedClusters selected"))
    assert asks_otherwise(before, made([{"name": "a"}], "1 ManagedClusters selected"))
    assert asks_otherwise(None, before)
    assert asks_otherwise(before, None)


@pytest.mark.parametrize(
    ("status", "key"),
    [("Unknown", "unreachable"), ("", "unreachable"), ("False", "unavailable"), ("True", "")],
)
def test_taints_follow_the_availability_and_others_stay(status: str, key: str) -> None:
    there = cluster(*([condition(AVAILABLE, status)] if status else []))
    own = {"key": "mine", "effect": "NoSelect"}
    prefix = "cluster.open-cluster-management.io/"
    there["spec"]["taints"] = [own, *({"key": prefix + each, "effect": "NoSelect"} for each in ("unreachable",))]
    found = health.taints(there, NOW)
    assert [each["key"] for each in found] == ["mine", *([prefix + key] if key else [])]
    assert all(each["timeAdded"] == "2026-01-01T00:00:00Z" for each in found)
