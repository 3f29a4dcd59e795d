"""Policies that protect the fields and annotations of proxy pods against users (ValidatingAdmissionPolicy, CEL).

`hack/crds` writes them into the chart, and the sandbox installs them in its clusters. API servers evaluate them
without requests to a webhook, and only for proxy pods. `agentpolicies` is about the agent, `accountpolicies`
about the accounts of delegates, `sourcepolicies` and `heartbeat_policies` about sources, `webhookpolicies`
about the webhook.
"""

from typing import Any

from agent.api import accountpolicies, agentpolicies, cel, heartbeat_policies, names, sourcepolicies, webhookpolicies

Raw = dict[str, Any]

CREATION = "multicluster-scheduler-proxy-pods"
CHANGES = "multicluster-scheduler-proxy-pod-annotations"

_CHANGED_BY = ("pods", "pods/status", "pods/resize", "pods/ephemeralcontainers")
"""Subresources that can change annotations. pods/binding is not included: a pod with a node gets no further
PodChaperon.
"""
_REMEDY = f"create the pod without spec.schedulerName and with the annotation {names.PREFIX}{names.ELECT}"


def policies(agent: str, home: str, webhook: str, own: str = ",".join(accountpolicies.OWN_ACCOUNTS)) -> list[Raw]:
    """Return all policies and their bindings.

    :param agent: name of the agent's user
    :param home: namespace of the agent
    :param webhook: name of the webhook's user
    :param own: names of Flotilla's service accounts in that namespace, separated by commas
    """
    by_name = agentpolicies.specs(agent) | webhookpolicies.specs(agent, webhook) | heartbeat_policies.specs(home)
    return [
        *cel.bound(CREATION, _creation(agent)),
        *cel.bound(CHANGES, _changes(agent)),
        *(obj for name, spec in by_name.items() for obj in cel.bound(name, spec)),
        *(obj for name, each in accountpolicies.specs(agent, home, own).items() for obj in cel.bound(name, *each)),
        *(obj for name, each in sourcepolicies.specs(home).items() for obj in cel.bound(name, *each)),
    ]


def not_controlled_by(kind: str, group: str) -> str:
    """Return CEL: no object of this kind controls the object."""
    return (
        "!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(o, "
        f"has(o.controller) && o.controller && o.kind == '{kind}' && o.apiVersion.startsWith('{group}/'))"
    )


def _creation(agent: str) -> Raw:
    """Return the policy that only the webhook creates proxy pods, in enabled namespaces."""
    label, value, by = names.LABEL_ENABLED, names.ENABLED_VALUE, names.ANNOTATION_CREATED_BY
    labels, annotations = "namespaceObject.metadata.labels", "variables.annotations"
    own, replacing = f"{annotations}['{by}'] == request.userInfo.username", cel.texts(*names.STATE_OF_REPLACEMENT)
    made = (
        f"'{names.ANNOTATION_MANIFEST}' in {annotations} && '{by}' in {annotations}",
        f"{annotations}.all(k, !(k in {cel.texts(*sorted(names.STATE_OF_PROXY))}))",
        f"({own} && {annotations}.all(k, !(k in {replacing})) || request.userInfo.username == '{agent}')",
    )
    return {
        **_about(["CREATE"], ["pods"], {"is-a-proxy-pod": _is_proxy("object")}),
        "variables": [_annotations("annotations", "object")],
        "validations": [
            {
                "expression": f"has({labels}) && '{label}' in {labels} && {labels}['{label}'] == '{value}'",
                "messageExpression": "'spec.schedulerName: namespace ' + request.namespace + ' is not enabled, so that"
                " no pod of it goes to other clusters: remove the field, or have an administrator run kubectl label"
                f" namespace ' + request.namespace + ' {label}={value}'",
                "reason": "Forbidden",
            },
            {
                "expression": not_controlled_by("PodChaperon", names.GROUP),
                "message": f"spec.schedulerName: a pod of a PodChaperon runs in this cluster, so its scheduler cannot"
                f" be {names.SCHEDULER_PROXY}: remove the field from the PodChaperon",
            },
            {
                "expression": " && ".join(made),
                "message": f"spec.schedulerName: {names.SCHEDULER_PROXY} is for pods that Flotilla's webhook has made:"
                f" {_REMEDY}",
            },
        ],
    }


def _changes(agent: str) -> Raw:
    """Return the policy that only the agent changes annotations of the webhook and the agent on proxy pods."""
    before, after = "variables.before", "variables.after"
    changed = (
        f"{cel.texts(*names.OURS_ON_PROXY)}.filter(k, (k in {before}) != (k in {after})"
        f" || (k in {before} && {before}[k] != {after}[k]))"
    )
    by_others = f"request.userInfo.username != '{agent}'"
    return {
        **_about(
            ["UPDATE"], list(_CHANGED_BY), {"is-a-proxy-pod": _is_proxy("oldObject"), "is-not-the-agent": by_others}
        ),
        "variables": [
            _annotations("before", "oldObject"),
            _annotations("after", "object"),
            {"name": "changed", "expression": changed},
        ],
        "validations": [
            {
                "expression": "variables.changed.size() == 0",
                "messageExpression": "'metadata.annotations[' + variables.changed[0] + '] of pod '"
                " + oldObject.metadata.name + ': only the agent of Flotilla changes it: leave it as it is; a pod that"
                " should be another one is created anew'",
                "reason": "Forbidden",
            }
        ],
    }


def _about(operations: list[str], resources: list[str], conditions: dict[str, str]) -> Raw:
    return cel.about([cel.rule("", operations, resources, version="v1")], conditions)


def _is_proxy(pod: str) -> str:
    return f"has({pod}.spec.schedulerName) && {pod}.spec.schedulerName == '{names.SCHEDULER_PROXY}'"


def _annotations(name: str, pod: str) -> Raw:
    return {
        "name": name,
        "expression": f"has({pod}.metadata.annotations) ? {pod}.metadata.annotations : {{}}",
    }
