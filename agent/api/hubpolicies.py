"""Policies of a hub (ValidatingAdmissionPolicy, CEL): who accepts clusters, and what a bootstrap token may register.

API servers evaluate them without requests to a webhook, so that members can register while it is down.
"""

from typing import Any

from agent.api import cel
from agent.api.kinds import (
    CERTIFICATE_REQUESTS,
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    MANAGED_CLUSTERS,
    ROLE_BINDINGS,
)
from agent.api.names.hub import (
    BOOTSTRAP_GROUP,
    CLIENT_SIGNER,
    MEMBER_USER,
    REGISTER_GROUP,
    SHARED_ROLES,
    member_role,
    token_group,
)
from agent.api.names.ocm import LABEL_CLUSTER_NAME, OURS

Raw = dict[str, Any]

ACCEPTANCE = "multicluster-scheduler-hub-acceptance"
TOKENS = "multicluster-scheduler-hub-tokens"
ROLES = "multicluster-scheduler-hub-roles"

_USER = "'user \"' + request.userInfo.username + '\"'"
_MAY_ACCEPT = (
    f"authorizer.group('{REGISTER_GROUP}').resource('managedclusters').subresource('accept')"
    ".name(object.metadata.name).check('update').allowed()"
)
_NAME = "^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$"
_NAMED = f"request.userInfo.groups.filter(g, g.startsWith('{BOOTSTRAP_GROUP}:'))"
"""CEL: groups of the user that each stand for the name of one cluster."""
_BOTH = ("oldObject", "object")
_MEMBERS = member_role("")
_OF_SOURCES = ("admiralty-source-", "admiralty-cluster-source-", "multicluster-source-", "multicluster-cluster-source-")
"""Prefixes of the names of bindings of Sources and ClusterSources (wire contract, 2.3)."""


def objects(agent: str) -> list[Raw]:
    """Return all policies and their bindings.

    :param agent: name of the agent's user
    """
    specs = {ACCEPTANCE: _acceptance(), TOKENS: _tokens(), ROLES: _roles(agent)}
    return [obj for name, spec in specs.items() for obj in cel.bound(name, spec)]


def _acceptance() -> Raw:
    """Return the policy about ManagedClusters: acceptance takes a right, and names and addresses are checked."""
    configs = "object.spec.managedClusterClientConfigs"
    given = f"!has(object.spec) || !has({configs})"
    return {
        **cel.about([cel.rule(MANAGED_CLUSTERS.group, ["CREATE", "UPDATE"], [MANAGED_CLUSTERS.plural])], {}),
        "variables": [
            _variable("accepts", _accepts("object")),
            _variable("accepted", f"oldObject != null && {_accepts('oldObject')}"),
            _variable("oursAfter", _is_ours("object")),
            _variable("oursBefore", f"oldObject != null && {_is_ours('oldObject')}"),
            _variable("userAfter", _member_user("object")),
            _variable("userBefore", f"oldObject == null ? '' : {_member_user('oldObject')}"),
        ],
        "validations": [
            cel.refuse(
                f"!variables.accepts || variables.accepted || {_MAY_ACCEPT}",
                f"{_USER} + ' cannot update the HubAcceptsClient field'",
            ),
            cel.refuse(
                f"variables.oursBefore == variables.oursAfter || {_MAY_ACCEPT}",
                f"{_USER} + ' cannot change the label {OURS}: it marks the ManagedClusters of Targets'",
            ),
            cel.refuse(
                f"variables.userBefore == variables.userAfter || {_MAY_ACCEPT}",
                f"{_USER} + ' cannot change the annotation {MEMBER_USER}: this user has the rights of the member'",
            ),
            cel.refuse(
                f"{given} || {configs}.all(c, c.url.startsWith('https://'))",
                f"'url \"' + {configs}.filter(c, !c.url.startsWith('https://'))[0].url"
                " + '\" is invalid in client configs'",
            ),
            *_names(),
        ],
    }


def _names() -> list[Raw]:
    """Return the rules about the name of a new ManagedCluster."""
    return [
        cel.refuse(
            f"oldObject != null || object.metadata.name.matches('{_NAME}')",
            "'metadata.name: \"' + object.metadata.name + '\" is no name of a namespace, and the cluster gets one:"
            " use at most 63 lower-case letters, digits and dashes'",
        ),
        cel.refuse(
            f"oldObject != null || !(object.metadata.name in {cel.texts(*SHARED_ROLES)})",
            "'metadata.name: \"' + object.metadata.name + '\" is part of the name of a ClusterRole that all members"
            " share: choose another name'",
        ),
    ]


def _tokens() -> Raw:
    """Return the policy that a bootstrap token for one name registers no other."""
    labels, label = "object.metadata.labels", LABEL_CLUSTER_NAME
    own = token_group("")
    requests = cel.rule(CERTIFICATE_REQUESTS.group, ["CREATE"], [CERTIFICATE_REQUESTS.plural])
    clusters = cel.rule(MANAGED_CLUSTERS.group, ["CREATE"], [MANAGED_CLUSTERS.plural])
    is_cluster = f"request.resource.resource == '{MANAGED_CLUSTERS.plural}'"
    name = f"{is_cluster} ? object.metadata.name : has({labels}) && '{label}' in {labels} ? {labels}['{label}'] : ''"
    return {
        **cel.about([clusters, requests], {"is-for-one-name": f"{_NAMED}.size() > 0"}),
        "variables": [_variable("cluster", name)],
        "validations": [
            cel.refuse(
                f"{_NAMED}.all(g, g == '{own}' + variables.cluster)",
                "'this token does not register \"' + variables.cluster + '\": ask the administrator of the hub"
                " for one with that name (flotilla hub token)'",
            ),
            cel.refuse(
                f"{is_cluster} || object.spec.signerName == '{CLIENT_SIGNER}'",
                f"'this bootstrap token asks for certificates of signer {CLIENT_SIGNER} only'",
            ),
        ],
    }


def _roles(agent: str) -> Raw:
    """Return the policy that the agent writes only ClusterRoles and bindings of members, and bindings of Sources."""
    allowed = " && ".join(f"({each} == null || {_is_members(each)} || {_is_sources(each)})" for each in _BOTH)
    kinds = [CLUSTER_ROLES.plural, CLUSTER_ROLE_BINDINGS.plural, ROLE_BINDINGS.plural]
    operations = ["CREATE", "UPDATE", "DELETE"]
    return {
        **cel.about([cel.rule(CLUSTER_ROLES.group, operations, kinds)], {"is-the-agent": cel.is_user(agent)}),
        "validations": [
            cel.refuse(
                allowed,
                "request.kind.kind + ' ' + request.name + ': the agent of Flotilla writes only those of members, which"
                f" are named {_MEMBERS}CLUSTER and labelled {LABEL_CLUSTER_NAME}=CLUSTER, and bindings of Sources:"
                " leave the others to administrators'",
            )
        ],
    }


def _is_members(obj: str) -> str:
    """Return CEL: the ClusterRole or binding is a member's, by its label, name and namespace."""
    labels, label, name = f"{obj}.metadata.labels", LABEL_CLUSTER_NAME, f"{obj}.metadata.name"
    own = f"'{_MEMBERS}' + {labels}['{label}']"
    inside = f"request.namespace == {labels}['{label}'] && {name} in [{own} + ':registration', {own} + ':work']"
    return f"has({labels}) && '{label}' in {labels} && ({name} == {own} || {inside})"


def _is_sources(obj: str) -> str:
    """Return CEL: the binding has a name that bindings of Sources and ClusterSources have."""
    named = f"{cel.texts(*_OF_SOURCES)}.exists(p, {obj}.metadata.name.startsWith(p))"
    return f"request.resource.resource != '{CLUSTER_ROLES.plural}' && {named}"


def _accepts(obj: str) -> str:
    return f"has({obj}.spec) && has({obj}.spec.hubAcceptsClient) && {obj}.spec.hubAcceptsClient"


def _is_ours(obj: str) -> str:
    return f"has({obj}.metadata.labels) && '{OURS}' in {obj}.metadata.labels"


def _member_user(obj: str) -> str:
    found = f"{obj}.metadata.annotations"
    return f"(has({found}) && '{MEMBER_USER}' in {found} ? {found}['{MEMBER_USER}'] : '')"


def _variable(name: str, expression: str) -> Raw:
    return {"name": name, "expression": expression}
