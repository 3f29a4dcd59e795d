"""Arguments of join, leave and export and their effect; without clusters."""

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from agent.api.kinds import CLUSTER_TARGETS, ROLE_BINDINGS, ROLES, SOURCES, TARGETS
from agent.api.sourcepolicies import LONGEST_TOKEN_SECONDS
from agent.cli import export
from agent.cli.joining import arguments, manifests
from agent.cli.joining.arguments import missing_rights
from agent.cli.joining.checks import too_old
from agent.cli.joining.contexts import Way, address
from agent.cli.joining.manifests import Names
from agent.cli.joining.objects import Report
from agent.cli.joining.options import order_of
from agent.cli.joining.pairs import rights
from agent.cli.joining.results import failures, notes, table
from agent.cli.options import Failed
from agent.kube import config, kubeconfig
from agent.kube.errors import InvalidConfig
from hack.lab.sandbox.certificates import Authority

NAMES = Names("cd", "us", False, "team", "team")
WIDE = Names("cd", "us", True, "flotilla", "flotilla")
CA = Authority("us", datetime.now(UTC)).pair.certificate
ENTRY = {"server": "https://us.example.com:6443", "certificate-authority-data": kubeconfig.embedded(CA)}


@pytest.mark.parametrize(
    ("context", "want"),
    [
        ("us", "us"),
        ("kind-us", "kind-us"),
        ("gke_project_europe-west1_prod", "gke-project-europe-west1-prod"),
        ("arn:aws:eks:eu-west-1:123:cluster/Prod", "arn-aws-eks-eu-west-1-123-cluster-prod"),
        ("a" * 62 + "@b", "a" * 62),
    ],
)
def test_a_context_gives_its_cluster_a_name_that_objects_can_have(context: str, want: str) -> None:
    assert arguments.name_of(context) == want


def test_a_context_of_which_nothing_is_left_asks_for_a_name() -> None:
    with pytest.raises(Failed, match="--target-name"):
        arguments.name_of("@@")


def test_names_are_given_for_all_contexts_or_for_none_and_tell_clusters_apart() -> None:
    assert arguments.names("--target-name", ["east", "west"], ["a", "b"]) == {"a": "east", "b": "west"}
    with pytest.raises(arguments.WrongUsage, match="given 1 times for 2 contexts"):
        arguments.names("--target-name", ["east"], ["a", "b"])
    with pytest.raises(arguments.WrongUsage, match="x-y would be the name of several clusters"):
        arguments.names("--target-name", [], ["x_y", "x-y"])
    with pytest.raises(arguments.WrongUsage, match="lower-case"):
        arguments.names("--target-name", ["East"], ["a"])
    with pytest.raises(arguments.WrongUsage, match="source and target would both be named cd"):
        order_of("cd", ["CD"], [], "", "team", False, False)


def test_values_go_to_the_context_they_name_and_plain_ones_to_the_only_one() -> None:
    assert arguments.by_context("--server", ["https://x?a=b"], ["us"], "us") == {"us": "https://x?a=b"}
    assert arguments.by_context("--server", ["us=https://x", "eu=https://y"], ["us", "eu"], None) == {
        "us": "https://x",
        "eu": "https://y",
    }
    with pytest.raises(arguments.WrongUsage, match=r"CONTEXT=VALUE \(contexts: us, eu\)"):
        arguments.by_context("--server", ["https://x"], ["us", "eu"], None)
    with pytest.raises(arguments.WrongUsage, match="twice for context us"):
        arguments.by_context("--server", ["us=a", "us=b"], ["us", "eu"], None)


def test_a_token_lives_no_shorter_than_api_servers_take() -> None:
    assert [arguments.seconds_of(text) for text in ("10m", "24h", "7d", "1h30m", "600")] == [
        600,
        86400,
        604800,
        5400,
        600,
    ]
    for text, message in (("9m", "10m at least"), ("7", "10m at least"), ("1w", "a duration"), ("", "a duration")):
        with pytest.raises(arguments.WrongUsage, match=f"--token-duration {text}: must be .*{message}"):
            arguments.seconds_of(text)


@pytest.mark.parametrize(
    ("server", "why"),
    [
        ("https://127.0.0.1:6443", "is a loopback address"),
        ("https://127.9.9.9", "is a loopback address"),
        ("https://[::1]:6443", "is a loopback address"),
        ("https://localhost:6443", "is a loopback address"),
        ("https://0.0.0.0:6443", "is no address that one can connect to"),
        ("https://169.254.1.1", "is a link-local address"),
        ("https://[fe80::1]", "is a link-local address"),
        ("https://kubernetes.docker.internal:6443", "is known to this machine only"),
        ("https://kubernetes.default.svc", "is known inside its own cluster only"),
        ("https://", "has no host"),
        ("https://10.0.0.7:6443", ""),
        ("https://[fd00::7]:6443", ""),
        ("https://us.example.com", ""),
    ],
)
def test_addresses_that_pods_elsewhere_cannot_reach_are_known(server: str, why: str) -> None:
    assert arguments.unreachable(server) == why


def test_a_loopback_address_is_refused_with_the_remedy_unless_it_will_do() -> None:
    entry = {**ENTRY, "server": "https://127.0.0.1:6443"}
    with pytest.raises(Failed, match="--server us=https://HOST:PORT, or, if your pods can, --allow-loopback"):
        address(entry, "us", Way())
    assert address(entry, "us", Way(loopback=True))["server"] == "https://127.0.0.1:6443"
    other = address({**entry, "tls-server-name": "old"}, "us", Way("https://us.example.com"))
    assert other == {"server": "https://us.example.com", "certificate-authority-data": kubeconfig.embedded(CA)}


def test_what_the_refusal_proposes_is_what_join_and_export_take() -> None:
    entry = {**ENTRY, "server": "https://127.0.0.1:6443"}
    with pytest.raises(Failed) as refused:
        address(entry, "us", Way())
    proposed = str(refused.value).partition("--server ")[2].partition(",")[0].replace("HOST:PORT", "10.0.0.7:6443")
    for typed in (proposed, "https://10.0.0.7:6443"):
        way = export.way_of("us", typed, "", "", loopback=False)
        assert address(entry, "us", way)["server"] == "https://10.0.0.7:6443"
    assert way.server == arguments.by_context("--server", [proposed], ["us"], None)["us"]


def test_everything_that_an_address_needs_is_embedded(tmp_path: Path) -> None:
    file = tmp_path / "ca.crt"
    file.write_bytes(CA)
    entry = {"server": "https://us.example.com:6443/", "certificate-authority": str(file), "proxy-url": "http://p:1"}
    assert address(entry, "us", Way()) == ENTRY | {"proxy-url": "http://p:1"}
    assert address(entry, "us", Way(proxy="http://q:2"))["proxy-url"] == "http://q:2"
    file.write_text("no certificate")
    with pytest.raises(InvalidConfig, match="holds no PEM certificate"):
        address(entry, "us", Way(authority=str(file)))


@pytest.mark.parametrize(
    ("entry", "way", "want"),
    [
        ({"server": "http://us"}, Way(), "no https address"),
        ({"server": "https://us", "insecure-skip-tls-verify": True}, Way(), "--ca-file us=FILE"),
        (ENTRY, Way(proxy="socks5://x"), "proxy 'socks5://x'"),
    ],
)
def test_what_agents_could_not_use_safely_is_refused(entry: dict[str, Any], way: Way, want: str) -> None:
    with pytest.raises(Failed, match=want):
        address(entry, "us", way)


def test_the_kubeconfig_in_the_secret_is_one_that_the_agent_reads() -> None:
    made = manifests.secret("us", "team", kubeconfig.with_token("us", ENTRY, "team", "t0ken"), "uid-us")
    connection = config.parse(manifests.kubeconfig_of(made))
    assert (connection.server, connection.namespace) == ("https://us.example.com:6443", "team")
    assert manifests.cluster_uid(made) == "uid-us"
    assert made["metadata"]["namespace"] == "team"


def test_a_target_vouches_for_the_cluster_that_it_has_come_to_stand_for() -> None:
    made = manifests.target(NAMES, "uid-us")
    assert not manifests.vouches(made, "uid-us")
    made["metadata"]["annotations"]["multicluster/accept-cluster"] = "uid-new"
    assert manifests.vouches(made, "uid-new")
    assert manifests.vouches(manifests.target(NAMES, "uid-us") | {"status": {"clusterUID": "uid-new"}}, "uid-new")
    assert not manifests.vouches(manifests.target(NAMES, ""), "")
    assert not manifests.vouches(None, "uid-new")


def test_what_is_as_wanted_needs_no_change_and_what_others_added_stays() -> None:
    wanted = manifests.target(NAMES, "uid-us")
    actual = manifests.without_none(wanted)
    actual["metadata"] |= {"uid": "1", "labels": {"a": "b"}}
    actual["spec"]["limits"] = {"cpu": "8"}
    assert manifests.change(actual, wanted) == {}
    actual["spec"] |= {"self": True, "kubeconfigSecret": {"name": "old", "key": "kubeconfig"}}
    assert manifests.change(actual, wanted) == {"spec": {"self": None, "kubeconfigSecret": {"name": "us", "key": None}}}


def test_a_cluster_of_unknown_identity_does_not_wipe_one_that_is_known() -> None:
    actual = manifests.without_none(manifests.source(NAMES, "uid-cd"))
    assert manifests.change(actual, manifests.source(NAMES, "")) == {}


def test_cluster_scoped_objects_name_the_namespace_of_what_they_need() -> None:
    assert (NAMES.target_kind, WIDE.target_kind) == (TARGETS, CLUSTER_TARGETS)
    assert manifests.source(WIDE, "")["spec"] == {"serviceAccount": {"name": "cd", "namespace": "flotilla"}}
    assert manifests.without_none(manifests.target(WIDE, ""))["spec"] == {
        "kubeconfigSecret": {"name": "us", "namespace": "flotilla"}
    }
    assert "namespace" not in manifests.target(WIDE, "")["metadata"]


def test_what_a_source_may_use_is_said_or_left_as_it_is() -> None:
    assert "allow" not in manifests.source(NAMES, "")["spec"]
    assert manifests.source(NAMES, "", ())["spec"]["allow"] == []
    actual = manifests.source(NAMES, "", ("volumes",))
    assert manifests.change(actual, manifests.source(NAMES, "")) == {}
    assert manifests.change(actual, manifests.source(NAMES, "", ("services",))) == {"spec": {"allow": ["services"]}}


def test_features_are_named_together_or_one_by_one_and_misspelt_ones_refused() -> None:
    assert arguments.features([]) is None
    assert arguments.features([""]) == ()
    assert (
        arguments.features(["volumes, services"])
        == arguments.features(["services", "volumes"])
        == ("services", "volumes")
    )
    with pytest.raises(arguments.WrongUsage, match="--allow secrets: choose of services, volumes, accounts"):
        arguments.features(["volumes,secrets"])


def test_a_token_of_years_is_not_asked_for() -> None:
    assert arguments.seconds_of("90d") == LONGEST_TOKEN_SECONDS
    with pytest.raises(arguments.WrongUsage, match=r"--token-duration 91d: must be .*90d at most"):
        arguments.seconds_of("91d")


def test_a_source_may_renew_its_own_token_and_no_other() -> None:
    (first, role), (second, binding) = manifests.renewal(NAMES, {"metadata": {"name": "other", "uid": "1"}})
    assert (first, second) == (ROLES, ROLE_BINDINGS)
    assert role["rules"] == [
        {"apiGroups": [""], "resources": ["serviceaccounts/token"], "verbs": ["create"], "resourceNames": ["cd"]}
    ]
    assert binding["roleRef"]["name"] == role["metadata"]["name"] == "admiralty-source-cd-token"
    assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "cd", "namespace": "team"}]
    assert role["metadata"]["ownerReferences"] == [
        {"apiVersion": SOURCES.api_version, "kind": "Source", "name": "other", "uid": "1"}
    ]


@pytest.mark.parametrize(
    ("version", "old"),
    [("v1.29.9", True), ("v0.9.0", True), ("v1.30.0-gke.1", False), ("v1.36.3+k3s1", False), ("?", False)],
)
def test_clusters_that_are_too_old_are_refused(version: str, old: bool) -> None:
    assert too_old(version).startswith(f"Kubernetes {version}, and Flotilla needs 1.30") is old


def test_rights_are_asked_for_where_they_are_needed() -> None:
    asked = [str(right._replace(namespace="team")) for right in rights("target", NAMES)]
    assert "create serviceaccounts/token in namespace team" in asked
    assert "patch clustertargets.multicluster.admiralty.io" in map(str, rights("source", WIDE))
    assert missing_rights("cluster us", {"create x": "y", "get z": "w"}).startswith(
        "cluster us does not let you: create x (y); get z (w); ask its administrator"
    )


def test_what_failed_says_what_was_done_before_and_notes_are_said_once() -> None:
    done = Report("us", "team", "cd", "us", "ready", ["Target created"], "2026-01-08T00:00:00Z", notes=["n"])
    failed = Report("eu", "", "cd", "eu", "failed", ["Source created"], message="no way", notes=["n", "m"])
    heads, rows = table([done, failed], wide=False)
    assert list(heads) == ["SOURCE", "TARGET", "NAMESPACE", "STATE", "TOKEN ENDS", "CHANGES"]
    assert list(map(list, rows)) == [
        ["cd", "us", "team", "ready", "2026-01-08T00:00:00Z", "1"],
        ["cd", "eu", "all", "failed", "-", "1"],
    ]
    assert notes([done, failed]) == ["Note: n", "Note: m"]
    assert failures([done, failed], "Again") == [
        "flotilla: cd -> eu: no way",
        "  Done before that: Source created. Again",
    ]
