import base64
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from agent.api import names
from agent.model import sourceapi
from agent.model.delegatepod import chaperon
from agent.model.proxypod import proxy_pod
from tests.model.pods import UID, pod

Raw = dict[str, Any]
ADDRESS = "10.0.0.1:6443"
ASKS = {names.SHORT_PREFIX + names.SOURCE_API: "true"}


def spec_of(source: Raw, address: str = ADDRESS) -> Raw:
    proxy = proxy_pod(source, [])
    spec = chaperon(proxy, cluster_name="c1", cluster_uid="CU", source_api=address)["spec"]
    assert isinstance(spec, dict)
    return spec


def test_containers_that_had_a_token_get_that_of_the_source_and_its_address() -> None:
    source = pod(ASKS)
    source["spec"]["containers"].append({"name": "side", "image": "busybox"})
    spec = spec_of(source)
    main, side = spec["containers"]
    assert main["env"] == [
        {"name": "KUBERNETES_SERVICE_HOST", "value": "10.0.0.1"},
        {"name": "KUBERNETES_SERVICE_PORT", "value": "6443"},
    ]
    mount = {"name": sourceapi.VOLUME, "mountPath": names.SERVICE_ACCOUNT_MOUNT, "readOnly": True}
    assert main["volumeMounts"] == [{"name": "d", "mountPath": "/d"}, mount]
    assert side == {"name": "side", "image": "busybox"}
    name = f"{names.chaperon('web-abc12', UID)}-source-api"
    assert spec["volumes"][-1] == {"name": sourceapi.VOLUME, "secret": {"secretName": name}}
    assert [volume["name"] for volume in spec["volumes"]] == ["d", sourceapi.VOLUME]
    assert spec["automountServiceAccountToken"] is False


def test_a_token_that_is_mounted_by_hand_becomes_that_of_the_source_and_what_hides_one_stays() -> None:
    source = pod(ASKS)
    token = {"name": "by-hand", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}}
    source["spec"]["volumes"] = [token, {"name": "hidden", "emptyDir": {}}]
    source["spec"]["containers"] = [
        {"name": name, "image": "busybox", "volumeMounts": [{"name": name, "mountPath": names.SERVICE_ACCOUNT_MOUNT}]}
        for name in ("by-hand", "hidden")
    ]
    by_hand, hidden = spec_of(source)["containers"]
    assert [each["name"] for each in by_hand["volumeMounts"]] == [sourceapi.VOLUME]
    assert [each["name"] for each in by_hand["env"]] == ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"]
    assert [each["name"] for each in hidden["volumeMounts"]] == ["hidden"]
    assert "env" not in hidden


@pytest.mark.parametrize(
    ("accounts", "otherwise", "want"),
    [
        (None, True, True),
        (None, False, False),
        ("builder", False, True),
        ("reader, builder", False, True),
        ("*", False, True),
        ("reader", True, False),
        ("", True, False),
        ("build", True, False),
    ],
)
def test_the_namespace_says_which_accounts_have_tokens_elsewhere(
    accounts: str | None, otherwise: bool, want: bool
) -> None:
    assert sourceapi.permits(accounts, "builder", otherwise=otherwise) == want


def test_what_a_user_says_about_the_address_wins() -> None:
    source = pod(ASKS)
    own = {"name": "KUBERNETES_SERVICE_HOST", "value": "elsewhere"}
    source["spec"]["containers"][0]["env"] = [own]
    assert spec_of(source)["containers"][0]["env"][-1] == own


def test_nothing_changes_without_the_annotation_or_without_an_address() -> None:
    plain = spec_of(pod(), "")
    assert spec_of(pod()) == plain
    assert spec_of(pod(ASKS), "") == plain
    assert "automountServiceAccountToken" not in plain


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("10.0.0.1:6443", ("10.0.0.1", "6443")),
        ("api.example.com:443", ("api.example.com", "443")),
        ("[fd00::1]:6443", ("fd00::1", "6443")),
        ("api.example.com", None),
        (":443", None),
        ("a:0", None),
        ("a:x", None),
    ],
)
def test_an_address_is_host_and_port(text: str, found: tuple[str, str] | None) -> None:
    assert sourceapi.split(text) == found


def test_the_secret_has_the_files_of_a_service_account_and_is_no_copy() -> None:
    metadata = pod()["metadata"]
    made = sourceapi.secret(metadata, "t0ken", "2026-01-01T01:00:00Z", "CA", cluster_name="c1", cluster_uid="CU")
    files = {name: base64.b64decode(content).decode() for name, content in made["data"].items()}
    assert files == {"token": "t0ken", "ca.crt": "CA", "namespace": "default"}
    labels = made["metadata"]["labels"]
    assert (labels[names.LABEL_PARENT_UID], labels[names.LABEL_TOKEN_OF]) == (UID, "CU")
    assert names.LABEL_PARENT_CLUSTER_UID not in labels


def test_a_token_is_bound_to_its_pod() -> None:
    request = sourceapi.token_request(pod()["metadata"], "robot", 3600)
    assert request["spec"]["boundObjectRef"] == {"apiVersion": "v1", "kind": "Pod", "name": "web-abc12", "uid": UID}
    assert request["metadata"]["name"] == "robot"


def test_a_token_is_renewed_when_a_fifth_of_its_time_is_left() -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)

    def wait(left: float) -> float:
        expires = (now + timedelta(seconds=left)).strftime("%Y-%m-%dT%H:%M:%SZ")
        return sourceapi.renew_in({names.ANNOTATION_TOKEN_EXPIRES: expires}, 3600, now)

    assert wait(3600) == 2880
    assert wait(720) == 0
    assert wait(-5) == 0
    assert sourceapi.renew_in({}, 3600, now) == 0
    assert sourceapi.renew_in({names.ANNOTATION_TOKEN_EXPIRES: "soon"}, 3600, now) == 0
