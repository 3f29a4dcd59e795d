"""Status of a Target about its cluster and its credentials."""

from typing import Any

import msgspec
import pytest

from agent.api.kinds import SECRETS
from agent.kube.store import Object
from agent.targets.target.gather import Problem, Reference, check, connection, fingerprint, kubeconfig, reference


def target(namespace: str = "default", **spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "c1", "namespace": namespace}, "spec": spec}


def secret(**data: str) -> Object:
    manifest = {"metadata": {"name": "s", "namespace": "default"}, "data": data}
    return Object(SECRETS, msgspec.json.encode(manifest))


PLACE = Reference(("default", "s"), "config", "")


def test_the_secret_is_in_the_namespace_of_its_target() -> None:
    found = reference(target(kubeconfigSecret={"name": "s", "namespace": "elsewhere"}))
    assert found == PLACE


def test_a_cluster_target_names_the_namespace_key_and_context() -> None:
    secret = {"name": "s", "namespace": "ops", "key": "k", "context": "c"}
    assert reference(target("", kubeconfigSecret=secret)) == Reference(("ops", "s"), "k", "c")


def test_this_cluster_needs_no_secret() -> None:
    check(target(self=True))
    assert reference(target(self=True)) is None


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({}, id="neither"),
        pytest.param({"self": False}, id="not even itself"),
        pytest.param({"self": True, "kubeconfigSecret": {"name": "s"}}, id="both"),
    ],
)
def test_a_target_names_exactly_one_cluster(spec: dict[str, Any]) -> None:
    with pytest.raises(Problem) as raised:
        check(target(**spec))
    assert raised.value.reason == "InvalidSpec"


def test_a_kubeconfig_is_decoded() -> None:
    assert kubeconfig(PLACE, secret(config="aGVsbG8=")) == b"hello"


def test_a_missing_secret_and_a_missing_key_are_told_apart() -> None:
    for found, want in ((None, "SecretNotFound"), (secret(), "KeyNotFound"), (secret(other=""), "KeyNotFound")):
        with pytest.raises(Problem) as raised:
            kubeconfig(PLACE, found)
        assert raised.value.reason == want
        assert "Secret default/s" in raised.value.message


def test_each_part_of_the_credentials_changes_the_fingerprint() -> None:
    places = (PLACE, Reference(PLACE.secret, "k", ""), Reference(PLACE.secret, "config", "c"), None)
    prints = {fingerprint(place, b"a") for place in places} | {fingerprint(PLACE, b"b")}
    assert len(prints) == 5
    assert fingerprint(PLACE, b"a") == fingerprint(Reference(("other", "s"), "config", ""), b"a")


def test_a_secret_may_not_name_programs_or_files() -> None:
    for user, words in (({"exec": {"command": "sh"}}, "use a token"), ({"tokenFile": "/etc/token"}, "inline data")):
        document = {
            "current-context": "x",
            "contexts": [{"name": "x", "context": {"cluster": "x", "user": "x"}}],
            "clusters": [{"name": "x", "cluster": {"server": "https://10.0.0.1"}}],
            "users": [{"name": "x", "user": user}],
        }
        with pytest.raises(Problem) as raised:
            connection(PLACE, msgspec.json.encode(document), plugins=False)
        assert raised.value.reason == "InvalidKubeconfig"
        assert words in raised.value.message
