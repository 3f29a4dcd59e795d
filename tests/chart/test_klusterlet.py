"""Rights on the objects of ManifestWorks: by the value works.rights, and none by default."""

from typing import Any

import pytest

from tests.chart.helm import NAMESPACE, Failed, template

pytestmark = pytest.mark.full("Needs Helm.")

Raw = dict[str, Any]

ON = "klusterlet.secret=hub-one"
AGENT = {"kind": "ServiceAccount", "name": "flotilla-agent", "namespace": NAMESPACE}
WORKS = {"kind": "ServiceAccount", "name": "flotilla-works", "namespace": NAMESPACE}


def about_works(*settings: str) -> list[Raw]:
    """Return roles and bindings for ManifestWorks."""
    named = (each for each in template(*settings) if each["kind"].endswith(("Role", "Binding")))
    return [each for each in named if each["metadata"]["name"].startswith("flotilla-works")]


def bound(subject: Raw, *settings: str) -> dict[tuple[str, str], str]:
    """Return the roles that an account is bound to, by namespace and name of the binding."""
    found = {}
    for each in about_works(*settings):
        if each["kind"].endswith("Binding") and each["subjects"] == [subject]:
            found[each["metadata"].get("namespace", ""), each["metadata"]["name"]] = each["roleRef"]["name"]
    return found


def arguments(*settings: str) -> list[str]:
    (agent,) = (
        each
        for each in template(*settings)
        if each["kind"] == "Deployment" and each["metadata"]["name"] == "flotilla-agent"
    )
    return list(agent["spec"]["template"]["spec"]["containers"][0]["args"])


def test_without_a_hub_there_are_no_rights_no_flag_and_no_crd() -> None:
    assert about_works() == about_works("works.rights=cluster-admin") == []
    assert not any(each.startswith("--hub-secret") for each in arguments())
    names = {each["metadata"]["name"] for each in template()}
    assert "appliedmanifestworks.work.open-cluster-management.io" not in names


def test_a_member_has_the_flag_and_the_crd_which_stays() -> None:
    assert "--hub-secret=hub-one" in arguments(ON)
    (crd,) = (each for each in template(ON) if each["metadata"]["name"].startswith("appliedmanifestworks"))
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_rights_are_those_of_the_value() -> None:
    shop = "works.namespaces={shop}"
    assert bound(WORKS, ON) == {("", "flotilla-works"): "flotilla-works"}
    assert bound(WORKS, ON, "works.rights=cluster-admin") == {("", "flotilla-works"): "cluster-admin"}
    assert bound(WORKS, ON, "works.rights=none") == bound(WORKS, ON, "works.rights=none", shop) == {}
    assert bound(WORKS, ON, "works.rights=namespaces", shop) == {("shop", "flotilla-works-admin"): "admin"}


def test_the_agent_itself_may_only_impersonate() -> None:
    own = {(NAMESPACE, "flotilla-works-account"): "flotilla-works-account"}
    everywhere = {**own, ("", "flotilla-works-executors"): "flotilla-works-executors"}
    in_shop = {**own, ("shop", "flotilla-works"): "flotilla-works"}
    shop = "works.namespaces={shop}"
    assert bound(AGENT, ON) == bound(AGENT, ON, "works.rights=cluster-admin") == everywhere
    assert bound(AGENT, ON, "works.rights=none") == own
    assert bound(AGENT, ON, "works.rights=none", shop) == bound(AGENT, ON, "works.rights=namespaces", shop) == in_shop
    for settings in ((ON,), (ON, "works.rights=namespaces", shop)):
        names = set(bound(AGENT, *settings).values())
        roles = [each for each in about_works(*settings) if each["kind"].endswith("Role")]
        rules = [rule for each in roles if each["metadata"]["name"] in names for rule in each["rules"]]
        agents = [rule for rule in rules if rule["resources"] == ["serviceaccounts"]]
        assert rules == agents
        assert all(rule["verbs"] == ["impersonate"] for rule in agents)


def test_the_account_has_no_token_in_pods_and_its_name_is_the_agents_flag() -> None:
    accounts = (each for each in template(ON) if each["kind"] == "ServiceAccount")
    (account,) = (each for each in accounts if each["metadata"]["name"] == "flotilla-works")
    assert account["automountServiceAccountToken"] is False
    assert "--works-account=flotilla-works" in arguments(ON)


def test_rights_of_admin_can_be_extended_by_a_label() -> None:
    (role,) = (each for each in about_works(ON) if "aggregationRule" in each)
    labels = [each["matchLabels"] for each in role["aggregationRule"]["clusterRoleSelectors"]]
    assert {"open-cluster-management.io/aggregate-to-work": "true"} in labels
    (more,) = (each for each in about_works(ON) if each["metadata"]["name"] == "flotilla-works-cluster")
    assert more["metadata"]["labels"]["open-cluster-management.io/aggregate-to-work"] == "true"
    assert not any("*" in rule["verbs"] for rule in more["rules"])


def test_invalid_values_are_refused_with_the_remedy() -> None:
    with pytest.raises(Failed, match=r"works\.rights=namespaces without works\.namespaces"):
        template(ON, "works.rights=namespaces")
    with pytest.raises(Failed, match=r"agent\.settings\.hub-secret: use klusterlet\.secret"):
        template("agent.settings.hub-secret=x")
