"""Restrictions of pods from other clusters: `spec.policy` of a Source or ClusterSource. Pure.

A missing field restricts nothing. Values that no API server accepts are rejected, too, so that any JSON has a
verdict.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import msgspec

Raw = dict[str, Any]

_HOST_NAMESPACES = ("hostNetwork", "hostPID", "hostIPC")
_CONTAINERS = ("initContainers", "containers", "ephemeralContainers")
_HOSTNAME = "kubernetes.io/hostname"
_DEFAULT_ACCOUNT = "default"
_QUOTED = 80
"""Maximum number of characters of a pod's text that a message repeats."""


class InvalidPolicy(ValueError):
    """An invalid policy; the message has the field and the remedy."""


class Policy(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """`spec.policy`, as in the schema of the CRD."""

    host_namespaces: bool | None = None
    host_paths: bool | None = None
    privileged: bool | None = None
    node_names: bool | None = None
    priority_class_names: tuple[str, ...] | None = None
    service_account_names: tuple[str, ...] | None = None
    image_prefixes: tuple[str, ...] | None = None


class Rule(NamedTuple):
    """The policy of one Source."""

    source: str
    """Name of the Source for users; empty if Flotilla itself rejects the pod."""
    policy: Policy
    barred: str = ""
    """Reason why every pod is rejected, empty if the policy decides."""


class Refusal(NamedTuple):
    """The Source that rejects a pod, and a message for its user."""

    source: str
    message: str


class _Violation(Exception):
    """A violation: the field of the policy, and the disallowed part of the pod."""


def read(policy: Any) -> Policy:
    """Parse the policy in a Source's spec.

    :raises InvalidPolicy: if it is invalid
    """
    try:
        return msgspec.convert(policy, Policy)
    except msgspec.ValidationError as error:
        raise InvalidPolicy(f"spec.policy cannot be read: {error}; correct it, or remove it for no policy") from error


def flaws(policy: Policy) -> list[tuple[str, str]]:
    """Return fields of a policy with problems that its schema cannot detect."""
    return [
        (f"spec.policy.imagePrefixes[{index}]", reason)
        for index, prefix in enumerate(policy.image_prefixes or ())
        if (reason := prefix_flaw(prefix))
    ]


def refusal(spec: Any, rules: Iterable[Rule]) -> Refusal | None:
    """Return the refusal of the first rule that does not allow a pod with this spec, None if all do."""
    return _first(spec, rules, (_host, _host_paths, _privileged, _node, _priority, _account, _images))


def refusal_of_change(spec: Any, rules: Iterable[Rule]) -> Refusal | None:
    """Return the same for a changed spec of a running pod: it checks images and ephemeral containers."""
    return _first(spec, rules, (_privileged, _images))


def _first(spec: Any, rules: Iterable[Rule], checks: Iterable[Callable[[Raw, Policy], None]]) -> Refusal | None:
    for rule in rules:
        if rule.barred:
            return Refusal(rule.source, f"{rule.source}: {rule.barred}" if rule.source else rule.barred)
        try:
            if not isinstance(spec, dict):
                raise _Violation("spec.policy", "it has no spec")
            for check in checks:
                check(spec, rule.policy)
        except _Violation as violation:
            field, what = violation.args
            remedy = "change the pod, or ask the administrator there"
            return Refusal(rule.source, f"{rule.source} does not allow it ({field}): {what}; {remedy}")
    return None


def _host(spec: Raw, policy: Policy) -> None:
    if policy.host_namespaces is False:
        for field in _HOST_NAMESPACES:
            if _asked(spec.get(field)):
                raise _Violation("spec.policy.hostNamespaces", f"it sets spec.{field}")


def _host_paths(spec: Raw, policy: Policy) -> None:
    if policy.host_paths is False:
        for volume in _objects(spec, "volumes"):
            if volume.get("hostPath") is not None:
                raise _Violation("spec.policy.hostPaths", f"volume {_quoted(volume.get('name'))} is a hostPath")


def _privileged(spec: Raw, policy: Policy) -> None:
    if policy.privileged is not False:
        return
    if _asked(_host_process(spec)):
        raise _Violation("spec.policy.privileged", "it sets spec.securityContext.windowsOptions.hostProcess")
    for where, container in _containers(spec):
        if _asked(_object(container, "securityContext").get("privileged")):
            raise _Violation("spec.policy.privileged", f"{where} is privileged")
        if _asked(_host_process(container)):
            raise _Violation("spec.policy.privileged", f"{where} is a hostProcess container")


def _host_process(of: Raw) -> Any:
    """Return the Windows setting for a privileged container."""
    return _object(_object(of, "securityContext"), "windowsOptions").get("hostProcess")


def _node(spec: Raw, policy: Policy) -> None:
    if policy.node_names is not False:
        return
    if spec.get("nodeName"):
        raise _Violation("spec.policy.nodeNames", f"it sets spec.nodeName to {_quoted(spec['nodeName'])}")
    if _HOSTNAME in _object(spec, "nodeSelector"):
        raise _Violation("spec.policy.nodeNames", f"spec.nodeSelector names {_HOSTNAME}")
    for term in _node_terms(_object(_object(spec, "affinity"), "nodeAffinity")):
        # Kubernetes supports only `metadata.name` in matchFields.
        named = any(True for _ in _objects(term, "matchFields"))
        if named or any(each.get("key") == _HOSTNAME for each in _objects(term, "matchExpressions")):
            raise _Violation("spec.policy.nodeNames", "spec.affinity.nodeAffinity chooses a node by its name")


def _node_terms(affinity: Raw) -> Iterator[Raw]:
    yield from _objects(_object(affinity, "requiredDuringSchedulingIgnoredDuringExecution"), "nodeSelectorTerms")
    for preferred in _objects(affinity, "preferredDuringSchedulingIgnoredDuringExecution"):
        yield _object(preferred, "preference")


def _priority(spec: Raw, policy: Policy) -> None:
    name = spec.get("priorityClassName")
    if policy.priority_class_names is not None and name and name not in policy.priority_class_names:
        raise _Violation("spec.policy.priorityClassNames", f"spec.priorityClassName is {_quoted(name)}")


def account_of(spec: Any) -> str:
    """Return the name of the service account of a pod with this spec; empty if it is not a string."""
    # `serviceAccount` is the old name of the field, which API servers still read.
    fields = spec if isinstance(spec, dict) else {}
    name = fields.get("serviceAccountName") or fields.get("serviceAccount") or _DEFAULT_ACCOUNT
    return name if isinstance(name, str) else ""


def _account(spec: Raw, policy: Policy) -> None:
    name = account_of(spec)
    if policy.service_account_names is not None and name not in policy.service_account_names:
        raise _Violation("spec.policy.serviceAccountNames", f"its service account is {_quoted(name or None)}")


def _images(spec: Raw, policy: Policy) -> None:
    if policy.image_prefixes is None:
        return
    for where, image in _image_names(spec):
        if reason := image_refusal(image, policy.image_prefixes):
            raise _Violation("spec.policy.imagePrefixes", f"the image of {where} is {_quoted(image)}, {reason}")


def _image_names(spec: Raw) -> Iterator[tuple[str, Any]]:
    for where, container in _containers(spec):
        yield where, container.get("image")
    for volume in _objects(spec, "volumes"):
        if volume.get("image") is not None:
            yield f"volume {_quoted(volume.get('name'))}", _object(volume, "image").get("reference")


def _containers(spec: Raw) -> Iterator[tuple[str, Raw]]:
    for field in _CONTAINERS:
        for container in _objects(spec, field):
            yield f"container {_quoted(container.get('name'))}", container


def _objects(of: Mapping[str, Any], field: str) -> list[Raw]:
    """Return a list of objects, empty if the field is not set."""
    found = of.get(field)
    if found is None:
        return []
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        raise _Violation("spec.policy", f"its {field} is no list of objects")
    return found


def _object(of: Mapping[str, Any], field: str) -> Raw:
    """Return an object, empty if the field is not set."""
    found = of.get(field)
    if found is None:
        return {}
    if not isinstance(found, dict):
        raise _Violation("spec.policy", f"its {field} is no object")
    return found


def _asked(value: Any) -> bool:
    return value is not None and value is not False


def _quoted(value: Any) -> str:
    return value[:_QUOTED] if isinstance(value, str) else "no text"


_PART = re.compile(r"[a-z0-9]+(?:[._-]+[a-z0-9]+)*")
_HOST = re.compile(r"[A-Za-z0-9][A-Za-z0-9.-]*(?::[0-9]{1,5})?|\[[0-9a-fA-F:]+\](?::[0-9]{1,5})?")
_LIMIT = 512
"""Maximum length of a name in characters; container runtimes reject repositories longer than 255."""
_DOCKER_HUB, _LIBRARY = "docker.io", "library"


def prefix_flaw(prefix: str) -> str:
    """Return the problem of a prefix, with the remedy; empty if it is valid."""
    if _parts(prefix.removesuffix("/")):
        return ""
    return (
        f"{prefix[:_LIMIT]!r} is no beginning of an image's name: write the registry's host and then whole parts of the"
        f" path, without tag or digest, as {_DOCKER_HUB}/{_LIBRARY} or registry.example:5000/team"
    )


def image_refusal(image: object, prefixes: Iterable[str]) -> str:
    """Return why an image is not allowed; empty if it has one of the prefixes. An invalid prefix allows nothing."""
    if not isinstance(image, str) or not (repository := _repository(image)):
        return "which names no registry: write it in full, as registry.example/team/nginx"
    for prefix in prefixes:
        parts = _parts(prefix.removesuffix("/"))
        if parts and repository[: len(parts)] == parts:
            return ""
    return "which begins with none of the prefixes there"


def _repository(image: str) -> list[str]:
    """Return the parts of an image's name without tag and digest; empty if it has no registry, or is invalid."""
    if len(image) > _LIMIT:
        return []
    name = image.partition("@")[0]
    before, slash, last = name.rpartition("/")
    parts = _parts(before + slash + last.partition(":")[0]) if slash else []
    if len(parts) == 2 and parts[0] == _DOCKER_HUB:
        return [_DOCKER_HUB, _LIBRARY, parts[1]]
    return parts if len(parts) > 1 else []


def _parts(name: str) -> list[str]:
    """Return host and path, empty if the name does not begin with a host or is invalid."""
    host, *path = name.split("/") if len(name) <= _LIMIT else [""]
    if not _HOST.fullmatch(host) or not ("." in host or ":" in host or host == "localhost"):
        return []
    return [host, *path] if all(_PART.fullmatch(part) for part in path) else []
