"""Rights depend on features: a disabled feature's rights are not granted."""

import pytest

from agent.api import ownroles, placementroles
from agent.api.accounts import Account, role_objects
from agent.api.gatewayroles import GATEWAY_HOSTS, KEEP_GATEWAYS
from agent.api.hubroles import HUB
from agent.api.ownroles import AGENT, WEBHOOK
from tests.chart.helm import NAMESPACE, template
from tests.chart.test_chart import SCORED, granted, roles_of

pytestmark = pytest.mark.full("Needs Helm.")

OFF = {
    "sourceController.enabled=false": {ownroles.SOURCE},
    "agent.placement.mode=off": {placementroles.FOLLOW_PLACEMENTS},
    "agent.tuning.stand-in-volumes=false": {ownroles.STAND_INS},
    "agent.settings.moves=false": {ownroles.MOVES},
    "agent.settings.service-links=false": {ownroles.SERVICE_LINKS_KEPT},
    "certificates.provider=cert-manager": {ownroles.CERTIFICATE, ownroles.TRUST},
}
"""Features by the values that disable them."""
SERVED = {placementroles.SERVE_PLACEMENTS, placementroles.EVALUATE_PLACEMENTS}
CHECKED = {ownroles.SECRETS_OF_TARGETS, ownroles.ASK_FOR_USERS}
ON = {
    "webhook.checkSecrets=true": CHECKED,
    "agent.settings.source-api=10.0.0.1:6443": {ownroles.SOURCE_API},
    "agent.settings.link-namespaces=true": {ownroles.LINK_NAMESPACES},
    "agent.settings.skupper=true": {ownroles.SHARE_BY_SKUPPER},
    "agent.settings.linkerd=true": {ownroles.SHARE_BY_LINKERD},
    "agent.settings.mcs=true": {ownroles.SERVE_MCS},
    "gateway.enabled=true": {KEEP_GATEWAYS},
    "gateway.enabled=true,gateway.headless=true": {KEEP_GATEWAYS, GATEWAY_HOSTS},
    "agent.summaryUsed=true": {ownroles.USED},
    "agent.placement.crds=true": SERVED | {placementroles.PLACEMENT_SCORES, ownroles.ASK_FOR_USERS},
    "agent.placement.mode=serve": SERVED | {placementroles.PLACEMENT_SCORES},
    "hub.enabled=true": SERVED | {placementroles.PLACEMENT_SCORES, ownroles.ASK_FOR_USERS, HUB},
    "agent.placement.evaluate=true": {placementroles.EVALUATE_PLACEMENTS},
    "agent.placement.usageScores=true": {placementroles.PLACEMENT_SCORES},
    SCORED: {placementroles.PLACEMENT_SCORES},
    "klusterlet.secret=hub": {placementroles.KLUSTERLET},
    "agent.p2code.enabled=true": {placementroles.P2CODE},
    "agent.p2code.enabled=true,agent.p2code.works=true": {placementroles.P2CODE, placementroles.P2CODE_WORKS},
    "agent.ac3Networks.enabled=true": {placementroles.AC3_NETWORKS},
}
"""Features by the values that enable them."""
NEVER = {ownroles.REGISTER}
"""Features without rights in the chart, because the chart does their work itself."""
ALWAYS = {
    *(ownroles.LEADER, ownroles.SCHEDULE, ownroles.STATUS, ownroles.ELECT, ownroles.TARGET, ownroles.DELEGATES),
    *(ownroles.VIRTUAL_NODES, ownroles.NODE_LEASES, ownroles.TELL, ownroles.SUMMARY, ownroles.PROPERTIES),
    *(ownroles.SOURCES_READ, ownroles.ACCOUNTS_READ, ownroles.BINDINGS_READ, ownroles.SELF_TARGETS),
    *(ownroles.FOLLOW, ownroles.FOLLOW_CLAIMS, ownroles.FOLLOW_RULES, ownroles.SHARE, ownroles.SHARE_BY_MCS),
    *(ownroles.KUBELET, ownroles.KUBELET_APPROVAL, ownroles.WARN, ownroles.CALLED, ownroles.SERVE, ownroles.FENCE),
}
"""Features that no value disables."""
BOTH = pytest.mark.parametrize("account", [AGENT, WEBHOOK], ids=lambda account: account.name)


def test_of_every_feature_it_is_known_which_value_switches_it() -> None:
    features = {grant.feature for each in (AGENT, WEBHOOK) for grants in each.grants.values() for grant in grants}
    assert features == ALWAYS | NEVER | set[str]().union(*OFF.values(), *ON.values())


@BOTH
@pytest.mark.parametrize(
    ("settings", "on"),
    [
        (("agent.placement.crds=true", "agent.placement.mode=consume"), {ownroles.ASK_FOR_USERS}),
        (
            ("agent.placement.crds=true", "agent.placement.usageScores=false"),
            SERVED | {ownroles.ASK_FOR_USERS},
        ),
        (
            ("agent.placement.crds=true", "webhook.checkSecrets=true"),
            SERVED | CHECKED | {placementroles.PLACEMENT_SCORES},
        ),
    ],
    ids=["another evaluates", "no scores of usage", "another switch"],
)
def test_rights_for_placements_go_with_who_evaluates_them(
    account: Account, settings: tuple[str, ...], on: set[str]
) -> None:
    without = NEVER.union(*ON.values()) - on
    assert roles_of(template(*settings), account.name) == granted(role_objects(account, NAMESPACE, without=without))


@BOTH
@pytest.mark.parametrize("setting", [*OFF, *ON])
def test_a_value_takes_or_brings_the_rights_of_its_features_and_no_others(account: Account, setting: str) -> None:
    usually = NEVER.union(*ON.values())
    without = (usually | OFF.get(setting, set())) - ON.get(setting, set())
    # Of impersonation for ManifestWorks see test_klusterlet.py.
    objects = [each for each in template(setting) if not each["metadata"]["name"].startswith("flotilla-works")]
    assert roles_of(objects, account.name) == granted(role_objects(account, NAMESPACE, without=without))
