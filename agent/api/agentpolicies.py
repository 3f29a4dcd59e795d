"""Policies that restrict the agent to Flotilla's objects where roles cannot distinguish objects (CEL).

They apply only to requests of the agent's own user.
"""

import base64
from typing import Any

from agent.api import cel, names
from agent.api.names.links import GATEWAY_SECRET
from agent.api.names.ocm import LABEL_CLUSTER_NAME

Raw = dict[str, Any]

NODES = "multicluster-scheduler-agent-nodes"
NAMESPACES = "multicluster-scheduler-agent-namespaces"
SECRETS = "multicluster-scheduler-agent-secrets"
VOLUMES = "multicluster-scheduler-agent-volumes"

_IDENTITY = (names.LABEL_TARGET_NAME, names.LABEL_CLUSTER_TARGET_NAME)
"""Labels that identify a virtual node whose provider label a user has removed: the agent restores the label."""
_OURS = (names.PREFIX, names.SHORT_PREFIX, names.LABEL_ENABLED)
"""Prefixes of keys that decide which pods of a namespace are elected."""
_ENFORCE = "pod-security.kubernetes.io/enforce"
_OTHERS_TYPES = ("kubernetes.io/", "bootstrap.kubernetes.io/", "helm.sh/")
"""Prefixes of Secret types without a kubeconfig of a Target: tokens, certificates, passwords, releases."""
_IN_A_KUBECONFIG = "clusters"
_BYTES_OF_BASE64 = 3
"""Number of bytes that base64 encodes together as four characters."""


def specs(agent: str) -> dict[str, Raw]:
    """Return the policies by name.

    :param agent: name of the agent's user
    """
    return {
        NODES: _nodes(agent),
        NAMESPACES: _namespaces(agent),
        SECRETS: _secrets(agent),
        VOLUMES: _volumes(agent),
    }


def _nodes(agent: str) -> Raw:
    """Return the policy that the agent creates, changes and deletes only virtual nodes."""
    key, value = names.PROVIDER_KEY, names.PROVIDER_VALUE
    before, after = "variables.labelsBefore", "variables.labelsAfter"
    was = " || ".join([f"'{key}' in {before} && {before}['{key}'] == '{value}'", *_are_in(before, _IDENTITY)])
    is_one = f"'{key}' in {after} && {after}['{key}'] == '{value}'"
    field = f"'metadata.labels[{key}] of node ' + request.name + '"
    return {
        **_about(agent, ["CREATE", "UPDATE", "DELETE"], ["nodes", "nodes/status"]),
        "variables": [_of("labelsBefore", "oldObject", "labels", "{}"), _of("labelsAfter", "object", "labels", "{}")],
        "validations": [
            cel.refuse(
                f"oldObject == null || {was}",
                f"{field}: the agent of Flotilla writes virtual nodes only, which have the value {value} there: leave"
                " this node to those whose it is'",
            ),
            cel.refuse(
                f"object == null || {is_one}",
                f"{field}: the agent of Flotilla makes virtual nodes only: have the value {value} there'",
            ),
        ],
    }


def _namespaces(agent: str) -> Raw:
    """Return the policy that the agent changes only one label of namespaces, and creates only those of
    ManagedClusters.
    """
    label, cluster = names.LABEL_ELECT_BY_DEFAULT, LABEL_CLUSTER_NAME
    whose = f" of namespace ' + oldObject.metadata.name + ': the agent of Flotilla changes the label {label} only: have"
    remedy = " an administrator change the rest'"
    kept = ("metadata.annotations", "metadata.finalizers", "metadata.ownerReferences", "spec")
    after = "variables.labelsAfter"
    # A new object already contains changes by other webhooks. None may elect pods or weaken their Pod Security
    # level.
    ours = f"{cel.texts(*_OURS)}.exists(p, k.startsWith(p))"
    alone = f"{after}.all(k, k == '{cluster}' || !{ours} && !({_privileged(after)}))"
    named = f"'{cluster}' in {after} && {after}['{cluster}'] == object.metadata.name"
    noted = f"(!has(object.metadata.annotations) || object.metadata.annotations.all(k, !{ours}))"
    bare = f"{noted} && !has(object.metadata.finalizers) && !has(object.metadata.ownerReferences)"
    return {
        **_about(agent, ["CREATE", "UPDATE"], ["namespaces"]),
        "variables": [*_both("labels", "{}"), _changed("labels", label)],
        "validations": [
            cel.refuse(
                f"oldObject != null || {alone} && {named} && {bare}",
                "'metadata of namespace ' + object.metadata.name + ': the agent of Flotilla makes namespaces of"
                f" ManagedClusters only: have it labelled {cluster} with its own name, nothing else of ours there, and"
                " no privileged pods'",
            ),
            cel.refuse(
                "oldObject == null || variables.changedLabels.size() == 0",
                f"'metadata.labels[' + variables.changedLabels[0] + ']{whose}{remedy}",
            ),
            *(cel.refuse(f"oldObject == null || ({_same(field)})", f"'{field}{whose}{remedy}") for field in kept),
        ],
    }


def _privileged(labels: str) -> str:
    """Return the policy that the agent only marks Secrets that Targets name, and renews tokens in kubeconfigs."""
    return f"k == '{_ENFORCE}' && {labels}[k] == 'privileged'"


def _secrets(agent: str) -> Raw:
    """Return the policy that the agent only marks Secrets that Targets name, and renews tokens in kubeconfigs."""
    mark, finalizer = names.LABEL_TARGET_SECRET, names.FINALIZER_DRAIN
    whose = " of secret ' + request.namespace + '/' + oldObject.metadata.name + ': the agent of Flotilla changes"
    leave = ": have an administrator change the rest'"
    finalizers = (
        f"variables.finalizersAfter.all(f, f in variables.finalizersBefore || f == '{finalizer}') &&"
        " variables.finalizersBefore.all(f, f in variables.finalizersAfter"
        f" || f == '{finalizer}' || f.startsWith('{names.PREFIX}'))"
    )
    others = f"{whose} one label, finalizers and kubeconfigs only{leave}"
    kept = ("metadata.annotations", "metadata.ownerReferences", "immutable")
    about = _about(agent, ["UPDATE"], ["secrets"])
    own = {"name": "is-not-its-own", "expression": f"request.name != '{GATEWAY_SECRET}'"}
    return {
        **about,
        "matchConditions": [*about["matchConditions"], own],
        "variables": [
            *_both("labels", "{}"),
            *_both("finalizers", "[]"),
            _of("dataBefore", "oldObject", "data", "{}", within=""),
            _of("dataAfter", "object", "data", "{}", within=""),
            _of("typeBefore", "oldObject", "type", "''", within=""),
            _changed("labels", mark),
            _changed("data"),
        ],
        "validations": [
            cel.refuse(
                "variables.changedLabels.size() == 0",
                f"'metadata.labels[' + variables.changedLabels[0] + ']{whose} the label {mark} only{leave}",
            ),
            cel.refuse(
                finalizers,
                f"'metadata.finalizers{whose} {finalizer} and what Admiralty has put there only{leave}",
            ),
            *(cel.refuse(_same(field), f"'{field}{others}") for field in kept),
            *_content(whose),
        ],
    }


def _volumes(agent: str) -> Raw:
    """Return the policy that the agent creates, changes and deletes only volumes that nothing can mount."""
    driver, field = names.STAND_IN_DRIVER, "'spec.csi.driver of volume ' + request.name + '"
    ours = "variables.driver{} == '" + driver + "'"
    return {
        **_about(agent, ["CREATE", "UPDATE", "DELETE"], ["persistentvolumes"]),
        "variables": [_driver("Before", "oldObject"), _driver("After", "object")],
        "validations": [
            cel.refuse(
                f"oldObject == null || {ours.format('Before')}",
                f"{field}: the agent of Flotilla writes volumes of driver {driver} only: leave this one to those whose"
                " it is'",
            ),
            cel.refuse(
                f"object == null || {ours.format('After')}",
                f"{field}: the agent of Flotilla makes volumes of driver {driver} only: have that value there'",
            ),
        ],
    }


def _content(whose: str) -> list[Raw]:
    """Return validations: only one kubeconfig in a Secret that was marked before may change, and no other data."""
    changed, mark = "variables.changedData", names.LABEL_TARGET_SECRET
    one = f"{changed}[0] in variables.dataBefore && {changed}[0] in variables.dataAfter"
    kubeconfigs = " && ".join(_is_kubeconfig(f"variables.data{when}[{changed}[0]]") for when in ("Before", "After"))
    field = f"'data[' + {changed}.join('], data[') + ']{whose}"
    return [
        cel.refuse(
            f"{changed}.size() == 0 || !{cel.texts(*_OTHERS_TYPES)}.exists(t, variables.typeBefore.startsWith(t))",
            f"{field} nothing in those of type ' + variables.typeBefore + ': leave it to whoever has made it'",
        ),
        cel.refuse(
            f"{changed}.size() == 0 || '{mark}' in variables.labelsBefore",
            f"{field} nothing in those that no Target names: have a label {mark} there, or change it yourself'",
        ),
        cel.refuse(
            f"{changed}.size() == 0 || {changed}.size() == 1 && {one} && {kubeconfigs}",
            f"{field} one key that is there and holds a kubeconfig: change the rest yourself'",
        ),
    ]


def _about(agent: str, operations: list[str], resources: list[str]) -> Raw:
    return cel.about([cel.rule("", operations, resources, version="v1")], {"is-the-agent": cel.is_user(agent)})


def _of(name: str, obj: str, field: str, empty: str, within: str = "metadata.") -> Raw:
    """Return a CEL variable: a field of an object, or `empty` if the field or the object does not exist."""
    path = f"{obj}.{within}{field}"
    return {"name": name, "expression": f"{obj} != null && has({path}) ? {path} : {empty}"}


def _driver(when: str, obj: str) -> Raw:
    """Return a CEL variable: the CSI driver of a volume, empty for none."""
    has = f"{obj} != null && has({obj}.spec.csi) && has({obj}.spec.csi.driver)"
    return {"name": f"driver{when}", "expression": f"{has} ? {obj}.spec.csi.driver : ''"}


def _both(field: str, empty: str) -> list[Raw]:
    return [_of(f"{field}Before", "oldObject", field, empty), _of(f"{field}After", "object", field, empty)]


def _changed(field: str, free: str = "") -> Raw:
    """Return a CEL variable: keys that were added, removed or have another value, except the key `free`."""
    before, after = f"variables.{field}Before", f"variables.{field}After"
    which = f"k != '{free}' && " if free else ""
    gone = f"{before}.filter(k, {which}!(k in {after} && {after}[k] == {before}[k]))"
    come = f"{after}.filter(k, {which}!(k in {before}))"
    return {"name": f"changed{field.capitalize()}", "expression": f"{gone} + {come}"}


def _same(field: str) -> str:
    """Return CEL: neither object has the field, or both have an equal one."""
    before, after = f"oldObject.{field}", f"object.{field}"
    return f"has({before}) ? has({after}) && {before} == {after} : !has({after})"


def _is_kubeconfig(value: str) -> str:
    """Return CEL: the base64 text contains clusters. The encoding of a word depends on its position."""
    looks = (f"dyn({value}).contains('{text}')" for text in in_base64(_IN_A_KUBECONFIG))
    return f"({' || '.join(looks)})"


def in_base64(word: str) -> list[str]:
    """Return the common part of all base64 texts with a word, for each of its three positions within three bytes."""
    found = []
    for start in range(_BYTES_OF_BASE64):
        text = base64.b64encode(b"\0" * start + word.encode()).decode().rstrip("=")
        bits = 8 * (start + len(word))
        found.append(text[-(-8 * start // 6) : bits // 6])
    return found


def _are_in(labels: str, keys: tuple[str, ...]) -> list[str]:
    return [f"'{key}' in {labels}" for key in keys]
