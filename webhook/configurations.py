"""Webhook configurations for API servers: selected objects, paths and failure policies. Pure.

Separate entries mutate pods at two paths, so that as few pods as possible depend on the webhook: pods that ask for
election, and pods of namespaces that elect by default. A third path is for updates of proxy pods. A fourth is for local
pods that are spread over nodes; without an answer these stay unchanged. A fifth validates our own kinds; two more only
warn about workloads.
"""

import base64
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.api.admission import not_controlled_by
from agent.api.kinds import (
    CLUSTER_SOURCES,
    CLUSTER_TARGETS,
    MUTATING_WEBHOOKS,
    SOURCES,
    TARGETS,
    VALIDATING_WEBHOOKS,
    Kind,
)
from agent.api.names import (
    ELECT,
    ENABLED_VALUE,
    GROUP,
    LABEL_ELECT_BY_DEFAULT,
    LABEL_ENABLED,
    PREFIX,
    SCHEDULER_PROXY,
    SHORT_PREFIX,
    VERSION,
)
from agent.model.manifest import TAKEN
from agent.model.spread import SPREAD_HARD
from webhook.placement_entries import ENTRIES, Entry
from webhook.target_choices import ENTRY, SAID_ANEW
from webhook.workloads import KINDS

LABEL_NAME = "app.kubernetes.io/name"
OWN_NAME = "flotilla"
"""The label of every pod of the chart."""

PATH = "/mutate--v1-pod"
PATH_V010 = "/mutate-v1-pod"
PATH_BY_DEFAULT = "/mutate-by-default--v1-pod"
PATH_CHANGED = "/mutate-changed--v1-pod"
PATH_STAYING = "/mutate-staying--v1-pod"
PATH_VALIDATE = "/validate-multicluster-admiralty-io-v1alpha1"
PATH_WORKLOADS = "/warn-workloads"
PATH_WORKLOADS_BY_DEFAULT = "/warn-by-default-workloads"

TIMEOUT_SECONDS = 10
VALIDATION_TIMEOUT_SECONDS = 5
WARNING_TIMEOUT_SECONDS = 2

VALIDATED = (TARGETS, CLUSTER_TARGETS, SOURCES, CLUSTER_SOURCES)

Raw = dict[str, Any]
Reach = Callable[[str], Raw]
"""Path -> clientConfig without caBundle: how the API server reaches us."""

_ANNOTATIONS = "object.metadata.annotations"
_LABELS = "object.metadata.labels"
_LONG_ELECT = PREFIX + ELECT
_SHORT_ELECT = SHORT_PREFIX + ELECT

ELECTED = (
    f"(has({_ANNOTATIONS}) && ('{_LONG_ELECT}' in {_ANNOTATIONS} || "
    f"('{_SHORT_ELECT}' in {_ANNOTATIONS} && {_ANNOTATIONS}['{_SHORT_ELECT}'] != 'false'))) || "
    f"(has(object.spec.schedulerName) && object.spec.schedulerName == '{SCHEDULER_PROXY}')"
)
"""CEL: a pod that asks for election, or a copy of a proxy pod. Other pods are created even if the webhook is down."""

SAYS_NOTHING = f"!has({_ANNOTATIONS}) || !('{_LONG_ELECT}' in {_ANNOTATIONS} || '{_SHORT_ELECT}' in {_ANNOTATIONS})"
"""CEL: a pod without annotations about election. Another entry selects pods that ask for election."""

_TEMPLATE = "[has(object.spec.template) ? object.spec.template : object.spec.jobTemplate.spec.template]"


def _of_template(expression: str) -> str:
    """Return CEL that applies an expression for pods to the pod template of a workload."""
    return f"{_TEMPLATE}.exists(pod, {expression.replace('object.', 'pod.')})"


ELECTED_PODS = _of_template(f"has(object.metadata) && ({ELECTED})")
PODS_SAY_NOTHING = _of_template(f"!has(object.metadata) || {SAYS_NOTHING}")


APPLIED = (
    "!has(object.metadata.ownerReferences) || !object.metadata.ownerReferences.exists(o, has(o.controller) &&"
    " o.controller)"
)
"""CEL: skip the ReplicaSets of a Deployment and the Jobs of a CronJob, whose owner has had the warnings."""

NEW_SPEC = f"request.operation == 'CREATE' || object.spec != oldObject.spec || {SAID_ANEW}"
"""CEL: a workload that is new, or whose spec, target or move annotations have changed."""

NOT_PLACED = "!has(object.spec.nodeName) || object.spec.nodeName == ''"
"""CEL: a pod without a node. A user who sets the node, as `kubectl debug node/NAME` does, wants that node."""


NOT_A_DELEGATE = not_controlled_by("PodChaperon", GROUP)
"""CEL: a pod created by a PodChaperon runs in this cluster (ruling 3)."""

NOT_OF_A_DAEMONSET = not_controlled_by("DaemonSet", "apps")
"""CEL: the pods of a DaemonSet belong to the nodes of this cluster."""


WAS_A_PROXY = f"has(oldObject.spec.schedulerName) && oldObject.spec.schedulerName == '{SCHEDULER_PROXY}'"


def _differs(field: str) -> str:
    """CEL: the pod's field was changed, removed or added."""
    before, after = f"oldObject.spec.{field}", f"object.spec.{field}"
    return f"(has({before}) != has({after}) || (has({after}) && {before} != {after}))"


TAKEN_CHANGES = " || ".join((*map(_differs, TAKEN), SAID_ANEW))
"""CEL: a field that the webhook has set, or a target or move annotation, changes, as in a second apply by the user.
The agent's own writes change none of them."""


def _not_our_own(namespace: str) -> str:
    """Return CEL: not a pod of the agent or the webhook, which must start without the webhook in any namespace."""
    return (
        f"request.namespace != '{namespace}' || !has({_LABELS}) || "
        f"!('{LABEL_NAME}' in {_LABELS}) || {_LABELS}['{LABEL_NAME}'] != '{OWN_NAME}'"
    )


@dataclass(frozen=True, slots=True)
class Service:
    """A Service through which the API server reaches the webhook."""

    namespace: str
    name: str
    port: int = 443

    @property
    def host(self) -> str:
        """The name that the API server expects in the certificate."""
        return f"{self.name}.{self.namespace}.svc"


def by_url(url: str) -> Reach:
    """Return the Reach of a webhook outside the cluster, at `https://HOST:PORT`."""
    return lambda path: {"url": url.rstrip("/") + path}


def by_service(service: Service) -> Reach:
    """Return the Reach of a webhook behind a Service of the cluster."""
    reference = {"namespace": service.namespace, "name": service.name, "port": service.port}
    return lambda path: {"service": {**reference, "path": path}}


def mutating(name: str, reach: Reach, ca_bundle: bytes, *, reinvocation: str = "Never") -> Raw:
    """The MutatingWebhookConfiguration (wire contract, 3). `ca_bundle` is PEM."""

    def webhook(
        entry: str, path: str, labels: Mapping[str, str], conditions: Mapping[str, str], operation: str = "CREATE"
    ) -> Raw:
        return {
            **_entry(entry, reach(path), ca_bundle, _rule("", "v1", ("pods",), (operation,)), TIMEOUT_SECONDS),
            **_which(labels, conditions),
            "failurePolicy": "Fail" if operation == "CREATE" else "Ignore",
            "reinvocationPolicy": reinvocation,
        }

    asked = {"elected": ELECTED, "not-a-delegate": NOT_A_DELEGATE}
    by_default = {
        "says-nothing": SAYS_NOTHING,
        "not-a-delegate": NOT_A_DELEGATE,
        "not-of-a-daemonset": NOT_OF_A_DAEMONSET,
        "not-placed": NOT_PLACED,
    }
    changed = {"was-a-proxy-pod": WAS_A_PROXY, "what-the-webhook-writes-changes": TAKEN_CHANGES}
    staying = {"not-elected": f"!({ELECTED})", "not-a-delegate": NOT_A_DELEGATE, "spread-hard": SPREAD_HARD}
    if service := reach(PATH_BY_DEFAULT).get("service"):
        by_default["not-our-own"] = staying["not-our-own"] = _not_our_own(service["namespace"])
    return _configuration(
        MUTATING_WEBHOOKS,
        name,
        [
            webhook(f"{name}.{GROUP}", PATH, {}, asked),
            webhook(f"by-default.{name}.{GROUP}", PATH_BY_DEFAULT, {LABEL_ELECT_BY_DEFAULT: "true"}, by_default),
            webhook(f"changed.{name}.{GROUP}", PATH_CHANGED, {}, changed, "UPDATE"),
            {
                **webhook(f"staying.{name}.{GROUP}", PATH_STAYING, {}, staying),
                "failurePolicy": "Ignore",
                "timeoutSeconds": WARNING_TIMEOUT_SECONDS,
            },
        ],
    )


def validating(name: str, reach: Reach, ca_bundle: bytes, *, placements: bool = False) -> Raw:
    """Return the ValidatingWebhookConfiguration of our own kinds, and of workloads, which only get warnings.

    Without an answer they pass: controllers report errors in conditions, and operators must not wait for the webhook.

    :param placements: include cluster sets and Placements, if no other webhook checks them
    """
    rule = _rule(GROUP, VERSION, tuple(kind.plural for kind in VALIDATED), ("CREATE", "UPDATE"))
    entry = _entry(f"validate.{name}.{GROUP}", reach(PATH_VALIDATE), ca_bundle, rule, VALIDATION_TIMEOUT_SECONDS)
    return _configuration(
        VALIDATING_WEBHOOKS,
        name,
        [
            {**entry, "failurePolicy": "Ignore"},
            *_warning(name, reach, ca_bundle),
            *_about((ENTRY, *ENTRIES) if placements else (ENTRY,), name, reach, ca_bundle),
        ],
    )


def _about(entries: Sequence[Entry], name: str, reach: Reach, ca_bundle: bytes) -> list[Raw]:
    """Return the entries for kinds of other projects."""
    found = []
    for each in entries:
        rule = _rule(each.kind.group, each.kind.version, (each.kind.plural,), ("CREATE", "UPDATE"))
        entry = _entry(f"{each.name}.{name}.{GROUP}", reach(each.path), ca_bundle, rule, VALIDATION_TIMEOUT_SECONDS)
        which = _which({}, {"concerned": each.condition})
        if not each.labelled:
            del which["namespaceSelector"]
        found.append({**entry, **which, "failurePolicy": each.policy})
    return found


def _warning(name: str, reach: Reach, ca_bundle: bytes) -> list[Raw]:
    """Return the entries that warn users who apply workloads."""
    rules = [_rule(group, "v1", plurals, ("CREATE", "UPDATE")) for group, plurals in KINDS.items()]

    def webhook(entry: str, path: str, labels: Mapping[str, str], conditions: Mapping[str, str]) -> Raw:
        conditions = {**conditions, "applied": APPLIED, "new-spec": NEW_SPEC}
        return {
            **_entry(entry, reach(path), ca_bundle, rules[0], WARNING_TIMEOUT_SECONDS),
            "rules": rules,
            **_which(labels, conditions),
            "failurePolicy": "Ignore",
        }

    by_default = {"says-nothing": PODS_SAY_NOTHING}
    if service := reach(PATH_WORKLOADS_BY_DEFAULT).get("service"):
        by_default["not-our-own"] = _not_our_own(service["namespace"])
    label = {LABEL_ELECT_BY_DEFAULT: "true"}
    return [
        webhook(f"warn.{name}.{GROUP}", PATH_WORKLOADS, {}, {"elected": ELECTED_PODS}),
        webhook(f"warn-by-default.{name}.{GROUP}", PATH_WORKLOADS_BY_DEFAULT, label, by_default),
    ]


def trust_patch(found: Mapping[str, Any], ca_bundle: bytes) -> Raw:
    """The strategic merge patch that makes every webhook of a configuration trust `ca_bundle`; {} when all do."""
    want = _encoded(ca_bundle)
    stale = [
        {"name": webhook["name"], "clientConfig": {"caBundle": want}}
        for webhook in found.get("webhooks") or []
        if webhook["clientConfig"].get("caBundle") != want
    ]
    return {"webhooks": stale} if stale else {}


def _configuration(kind: Kind, name: str, webhooks: list[Raw]) -> Raw:
    return {"apiVersion": kind.api_version, "kind": kind.name, "metadata": {"name": name}, "webhooks": webhooks}


def _rule(group: str, version: str, resources: Sequence[str], operations: Sequence[str]) -> Raw:
    return {
        "apiGroups": [group],
        "apiVersions": [version],
        "resources": list(resources),
        "operations": list(operations),
        "scope": "*",
    }


def _entry(name: str, client_config: Raw, ca_bundle: bytes, rule: Raw, timeout: int) -> Raw:
    return {
        "name": name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": {**client_config, "caBundle": _encoded(ca_bundle)},
        "rules": [rule],
        "sideEffects": "None",
        "timeoutSeconds": timeout,
    }


def _which(labels: Mapping[str, str], conditions: Mapping[str, str]) -> Raw:
    """Return the namespace selector and match conditions of an entry."""
    return {
        "namespaceSelector": {"matchLabels": {LABEL_ENABLED: ENABLED_VALUE, **labels}},
        "matchConditions": [{"name": key, "expression": expression} for key, expression in conditions.items()],
    }


def _encoded(ca_bundle: bytes) -> str:
    return base64.b64encode(ca_bundle).decode()
