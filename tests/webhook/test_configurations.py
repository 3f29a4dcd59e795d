import base64
from typing import Any

from agent.api.kinds import MUTATING_WEBHOOKS
from agent.model.manifest import TAKEN
from webhook.configurations import Service, by_service, by_url, mutating, trust_patch, validating

CA = b"-----BEGIN CERTIFICATE-----\n"


def test_the_configuration_is_the_one_of_the_wire_contract() -> None:
    made = mutating("flotilla", by_service(Service("system", "hook")), CA)
    webhook = made["webhooks"][0]
    assert made["apiVersion"] == MUTATING_WEBHOOKS.api_version
    assert made["metadata"] == {"name": "flotilla"}
    assert webhook["name"] == "flotilla.multicluster.admiralty.io"
    assert webhook["admissionReviewVersions"] == ["v1"]
    assert webhook["clientConfig"] == {
        "service": {"namespace": "system", "name": "hook", "port": 443, "path": "/mutate--v1-pod"},
        "caBundle": base64.b64encode(CA).decode(),
    }
    assert webhook["rules"] == [
        {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"], "scope": "*"}
    ]
    assert webhook["namespaceSelector"] == {"matchLabels": {"multicluster-scheduler": "enabled"}}
    assert "objectSelector" not in webhook
    assert (webhook["failurePolicy"], webhook["sideEffects"], webhook["timeoutSeconds"]) == ("Fail", "None", 10)
    assert webhook["reinvocationPolicy"] == "Never"
    assert [condition["name"] for condition in webhook["matchConditions"]] == ["elected", "not-a-delegate"]


def test_reinvocation_is_a_choice() -> None:
    made = mutating("flotilla", by_url("https://h:1"), CA, reinvocation="IfNeeded")
    assert made["webhooks"][0]["reinvocationPolicy"] == "IfNeeded"


def test_outside_a_cluster_the_webhook_is_called_by_url() -> None:
    assert by_url("https://h:9443/")("/mutate--v1-pod") == {"url": "https://h:9443/mutate--v1-pod"}


def test_a_configuration_that_trusts_us_needs_no_patch() -> None:
    made = mutating("flotilla", by_url("https://h:1"), CA)
    assert trust_patch(made, CA) == {}
    assert trust_patch({}, CA) == {}


def test_only_the_trust_of_a_configuration_is_patched() -> None:
    made = mutating("flotilla", by_url("https://h:1"), CA)
    want = base64.b64encode(b"new").decode()
    assert trust_patch(made, b"new") == {
        "webhooks": [
            {"name": "flotilla.multicluster.admiralty.io", "clientConfig": {"caBundle": want}},
            {"name": "by-default.flotilla.multicluster.admiralty.io", "clientConfig": {"caBundle": want}},
            {"name": "changed.flotilla.multicluster.admiralty.io", "clientConfig": {"caBundle": want}},
            {"name": "staying.flotilla.multicluster.admiralty.io", "clientConfig": {"caBundle": want}},
        ]
    }
    made["webhooks"][0]["clientConfig"]["caBundle"] = want
    assert [each["name"] for each in trust_patch(made, b"new")["webhooks"]] == [
        "by-default.flotilla.multicluster.admiralty.io",
        "changed.flotilla.multicluster.admiralty.io",
        "staying.flotilla.multicluster.admiralty.io",
    ]


def test_pods_of_namespaces_that_elect_by_default_have_an_entry_of_their_own() -> None:
    asked, by_default, _, _ = mutating("flotilla", by_service(Service("system", "hook")), CA)["webhooks"]
    assert by_default["clientConfig"]["service"]["path"] == "/mutate-by-default--v1-pod"
    assert by_default["namespaceSelector"] == {
        "matchLabels": {"multicluster-scheduler": "enabled", "multicluster/elect-by-default": "true"}
    }
    assert [condition["name"] for condition in by_default["matchConditions"]] == [
        "says-nothing",
        "not-a-delegate",
        "not-of-a-daemonset",
        "not-placed",
        "not-our-own",
    ]
    alike = asked.keys() - {"name", "clientConfig", "namespaceSelector", "matchConditions"}
    assert {key: by_default[key] for key in alike} == {key: asked[key] for key in alike}


def test_changes_of_proxy_pods_never_wait_for_us() -> None:
    changed = mutating("flotilla", by_url("https://h:1"), CA)["webhooks"][2]
    assert changed["clientConfig"]["url"] == "https://h:1/mutate-changed--v1-pod"
    (rule,) = changed["rules"]
    assert (rule["resources"], rule["operations"]) == (["pods"], ["UPDATE"])
    assert changed["failurePolicy"] == "Ignore"
    proxy, taken = (condition["expression"] for condition in changed["matchConditions"])
    assert "oldObject.spec.schedulerName == 'admiralty-proxy'" in proxy
    assert all(f"object.spec.{field}" in taken for field in TAKEN)


def test_pods_that_stay_never_wait_for_us() -> None:
    staying = mutating("flotilla", by_service(Service("system", "hook")), CA)["webhooks"][3]
    assert staying["clientConfig"]["service"]["path"] == "/mutate-staying--v1-pod"
    assert (staying["failurePolicy"], staying["timeoutSeconds"]) == ("Ignore", 2)
    assert staying["namespaceSelector"] == {"matchLabels": {"multicluster-scheduler": "enabled"}}
    names = [condition["name"] for condition in staying["matchConditions"]]
    assert names == ["not-elected", "not-a-delegate", "spread-hard", "not-our-own"]


def test_outside_a_cluster_no_pod_is_our_own() -> None:
    by_default = mutating("flotilla", by_url("https://h:1"), CA)["webhooks"][1]
    assert "not-our-own" not in [condition["name"] for condition in by_default["matchConditions"]]


def test_our_own_kinds_are_validated_but_never_wait_for_us() -> None:
    made = validating("flotilla", by_url("https://h:1"), CA)
    webhook = made["webhooks"][0]
    assert made["kind"] == "ValidatingWebhookConfiguration"
    assert webhook["failurePolicy"] == "Ignore"
    assert webhook["rules"] == [
        {
            "apiGroups": ["multicluster.admiralty.io"],
            "apiVersions": ["v1alpha1"],
            "resources": ["targets", "clustertargets", "sources", "clustersources"],
            "operations": ["CREATE", "UPDATE"],
            "scope": "*",
        }
    ]


def test_what_makes_elected_pods_is_looked_at_for_warnings_and_never_waits_for_us() -> None:
    asked, by_default = validating("flotilla", by_service(Service("system", "hook")), CA)["webhooks"][1:3]
    assert asked["rules"] == by_default["rules"]
    resources = {(*each["apiGroups"], *each["resources"]) for each in asked["rules"]}
    assert resources == {("apps", "deployments", "statefulsets", "replicasets"), ("batch", "jobs", "cronjobs")}
    for each in (asked, by_default):
        assert (each["failurePolicy"], each["sideEffects"]) == ("Ignore", "None")
        assert each["namespaceSelector"]["matchLabels"]["multicluster-scheduler"] == "enabled"
    assert by_default["namespaceSelector"]["matchLabels"]["multicluster/elect-by-default"] == "true"
    named = [[condition["name"] for condition in each["matchConditions"]] for each in (asked, by_default)]
    assert named == [
        ["elected", "applied", "new-spec"],
        ["says-nothing", "not-our-own", "applied", "new-spec"],
    ]


def test_an_upgrade_finds_every_entry_by_its_name() -> None:
    entries = validating("flotilla", by_url("https://h:1"), CA)["webhooks"]
    assert len({each["name"] for each in entries}) == len(entries)
    assert entries[0]["name"] == "validate.flotilla.multicluster.admiralty.io"


def test_cluster_sets_and_placements_are_asked_about_only_where_that_is_wanted() -> None:
    def made(*, placements: bool) -> dict[str, Any]:
        found = validating("flotilla", by_url("https://h:1"), CA, placements=placements)["webhooks"]
        return {each["name"].partition(".")[0]: each for each in found}

    plain, found = made(placements=False), made(placements=True)
    entries = ("bind-sets", "join-sets", "placements", "namespaces", "works", "applications")
    assert tuple(found) == (*plain, *entries)
    for name, policy, resource in zip(
        entries,
        ("Fail", "Fail", "Ignore", "Ignore", "Fail", "Ignore"),
        (
            *("managedclustersetbindings", "managedclusters", "placements", "namespaces", "manifestworks"),
            "p2codeschedulingmanifests",
        ),
        strict=True,
    ):
        (rule,) = found[name]["rules"]
        assert (rule["resources"], rule["operations"]) == ([resource], ["CREATE", "UPDATE"])
        assert (found[name]["failurePolicy"], found[name]["sideEffects"]) == (policy, "None")
        assert len(found[name]["matchConditions"]) == 1
    assert plain["targets"]["failurePolicy"] == "Ignore"
    assert plain["targets"]["namespaceSelector"] == {"matchLabels": {"multicluster-scheduler": "enabled"}}
    # Except for cluster sets and ManifestWorks, the API server calls the webhook only for namespaces with elected pods.
    assert found["namespaces"]["namespaceSelector"] == {"matchLabels": {"multicluster-scheduler": "enabled"}}
    assert "namespaceSelector" not in found["join-sets"]
