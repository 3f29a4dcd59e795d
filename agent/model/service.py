"""Services with pods in several clusters: their kinds, and their selectors (wire contract, 7.1).

A *shared* Service has copies in the other clusters: every Service that selects proxy pods, and every Service
that its user annotated as global. A Service that selects proxy pods is *native* or *rerouted* in the source:

- native: the selector is the user's, and the EndpointSlices of Kubernetes have the proxy pods;
- rerouted: the selector is rewritten like the labels of delegates, and an annotation has the user's selector.
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from agent.api import names
from agent.api.names.links import AFFINITIES, ANNOTATION_CILIUM_AFFINITY, LABEL_HEADLESS_OF, LABEL_LINK_OF
from agent.model.relabel import exact_selector, relabel

Raw = dict[str, Any]
Selector = dict[str, str]

_OWN_KEYS = (names.PREFIX + names.GLOBAL, names.SHORT_PREFIX + names.GLOBAL)
_CILIUMS_KEYS = (names.ANNOTATION_CILIUM, names.ANNOTATION_CILIUM_V1)
GLOBAL_KEYS = (*_OWN_KEYS, *_CILIUMS_KEYS)
MARKS = (names.ANNOTATION_GLOBAL, names.ANNOTATION_CILIUM_V1, names.ANNOTATION_CILIUM)

ELECTED = "elected-pods"
"""Word in the list of `ANNOTATION_MARKS`: the Service is native. Older agents remove it when they write the list."""

SELECTOR_LIMIT = 1000
"""Maximum number of keys in a selector: the agent parses a Service several times for each change."""

API_SERVER = ("default", "kubernetes")
"""Namespace and name of the API server's Service, which every cluster has."""


class InvalidService(ValueError):
    """A Service that cannot be rerouted; the message has field, reason and remedy."""


def is_headless(spec: Mapping[str, Any]) -> bool:
    """Return whether callers resolve a Service to addresses of pods, and use the pods' ports."""
    return bool(spec.get("clusterIP") == "None")


def is_copy(annotations: Mapping[str, str] | None) -> bool:
    """Return whether an object is a copy from another cluster, which is not shared any further."""
    return names.ANNOTATION_IS_DELEGATE in (annotations or {})


def is_left_alone(annotations: Mapping[str, str] | None) -> bool:
    """Return whether a user wants a Service (or Ingress) neither rerouted nor copied.

    Annotations that the agent added are ignored. A user's `global` takes precedence over Cilium's keys; one of
    these with `true` is enough to share.
    """
    found = annotations or {}
    added = marks_of(found)

    def said(keys: tuple[str, ...]) -> list[str]:
        return [found[key].lower() for key in keys if key in found and key not in added]

    own, ciliums = said(_OWN_KEYS), said(_CILIUMS_KEYS)
    return own[0] == "false" if own else "false" in ciliums and "true" not in ciliums


def is_shared(annotations: Mapping[str, str] | None) -> bool:
    """Return whether a Service has copies in the other clusters."""
    found = annotations or {}
    if is_copy(found) or is_left_alone(found):
        return False
    return selects_elected(found) or any(found.get(key, "").lower() == "true" for key in GLOBAL_KEYS)


def selects_elected(annotations: Mapping[str, str] | None) -> bool:
    """Return True if the agent marked a Service because it selects proxy pods: it is native or rerouted."""
    return names.ANNOTATION_ORIGINAL_SELECTOR in (annotations or {}) or is_native(annotations)


def is_native(annotations: Mapping[str, str] | None) -> bool:
    """Return True if a Service selects proxy pods by its user's selector, and is not rerouted."""
    found = annotations or {}
    return names.ANNOTATION_ORIGINAL_SELECTOR not in found and ELECTED in _listed(found)


def is_shared_by_namespace(annotations: Mapping[str, str] | None) -> bool:
    """Return whether a Service has copies only because of its namespace: it selects no proxy pods, and its user
    has not annotated it as global."""
    found = annotations or {}
    if selects_elected(found) or not is_shared(found):
        return False
    added = marks_of(found)
    return not any(found.get(key, "").lower() == "true" and key not in added for key in GLOBAL_KEYS)


def format_selector(selector: Mapping[str, str]) -> str:
    """Return a selector in the format of the annotation original-selector: `a=b,c=d`, sorted."""
    return ",".join(f"{key}={value}" for key, value in sorted(selector.items()))


def parse_selector(text: str) -> Selector:
    """Parse the annotation original-selector.

    :raises InvalidService: if it is not a selector
    """
    _check_number(f"annotation {names.ANNOTATION_ORIGINAL_SELECTOR}", text.count(",") + 1)
    pairs = [part.strip().partition("=") for part in text.split(",") if part.strip()]
    if not pairs or not all(key and separator for key, separator, _ in pairs):
        raise InvalidService(
            f"annotation {names.ANNOTATION_ORIGINAL_SELECTOR}: {text[:100]!r} is no selector; apply the Service as"
            " it was at first, and it is written anew"
        )
    return {key: value for key, _, value in pairs}


def users_selector(service: Mapping[str, Any]) -> Selector:
    """Return the selector as the Service's user wrote it; empty if it selects none of the user's own pods.

    When a user applies the Service again, tools merge the user's keys with rewritten ones. Then return only the
    user's keys. A selector with Flotilla's prefix that the user wrote for delegates is not rerouted.

    :raises InvalidService: if the annotation with the original selector is invalid, or the selector has too many
        keys
    :raises InvalidPattern: if the regexp of labels that keep their key is invalid
    """
    live: Selector = (service.get("spec") or {}).get("selector") or {}
    _check_number("spec.selector", len(live))
    plain = _plain(live)
    annotations = _annotations(service)
    kept = annotations.get(names.ANNOTATION_ORIGINAL_SELECTOR)
    if kept is None:
        return live if plain else {}
    original = parse_selector(kept)
    ours = relabel(original, regexp(annotations))
    unchanged = plain == _plain(original) or all(ours.get(key) == value for key, value in plain.items())
    return original if live and unchanged else plain


def selector_of_pods(service: Mapping[str, Any]) -> Selector:
    """Return the user's selector for a Service's pods; empty if the Service sends no traffic to pods.

    :raises InvalidService, InvalidPattern: as `users_selector`
    """
    return {} if service["spec"].get("type") == "ExternalName" else users_selector(service)


def selects(service: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a Service, as its user wrote it, sends traffic to pods with these labels.

    :raises InvalidService, InvalidPattern: as `users_selector`
    """
    selector = selector_of_pods(service)
    return bool(selector) and all(labels.get(key) == value for key, value in selector.items())


def regexp(annotations: Mapping[str, str] | None) -> str | None:
    """Return the user's regular expression for labels that keep their key."""
    return names.annotation(annotations, names.NO_PREFIX_REGEXP)


def can_be_rerouted(service: Mapping[str, Any]) -> bool:
    """Return whether a Service sends traffic to pods, and is neither a copy nor excluded by its user."""
    annotations = _annotations(service)
    external = service["spec"].get("type") == "ExternalName"
    return not external and not is_copy(annotations) and not is_left_alone(annotations)


def can_be_shared(service: Mapping[str, Any]) -> bool:
    """Return whether a Service may have copies: not if it represents another cluster's, or is the API server's."""
    metadata, annotations = service["metadata"], _annotations(service)
    imported = any(owner["kind"] == "ServiceImport" for owner in metadata.get("ownerReferences") or ())
    elsewhere = imported or is_copy(annotations) or LABEL_HEADLESS_OF in (metadata.get("labels") or {})
    everywhere = (metadata.get("namespace"), metadata.get("name")) == API_SERVER
    return not elsewhere and not everywhere and not is_left_alone(annotations)


def has_endpoints_by_hand(service: Mapping[str, Any]) -> bool:
    """Return whether a shared Service has no selector, so that its user writes its EndpointSlices."""
    metadata, spec = service["metadata"], service["spec"]
    if spec.get("selector") or spec.get("type") == "ExternalName" or LABEL_LINK_OF in (metadata.get("labels") or {}):
        return False
    return can_be_shared(service) and is_shared(_annotations(service))


def selector_of_copy(service: Mapping[str, Any], cluster_uid: str = "") -> Selector | None:
    """Return the selector for copies of a shared Service: for delegates if the Service is native or rerouted.

    :param cluster_uid: UID of the source. If the Service is native, select only its serving delegates, by exact
        labels. If empty, select delegates of all sources by the wire contract's labels, as for a rerouted one
    :raises InvalidService, InvalidPattern: as `users_selector`
    """
    annotations = _annotations(service)
    if not selects_elected(annotations):
        return (service.get("spec") or {}).get("selector")
    original = users_selector(service)
    if not cluster_uid or not original or not is_native(annotations):
        return relabel(original, regexp(annotations))
    ours = {names.LABEL_PARENT_CLUSTER_UID: cluster_uid, names.LABEL_SERVING: "true"}
    return {**exact_selector(original, regexp(annotations)), **ours}


def _check_number(field: str, count: int) -> None:
    if count > SELECTOR_LIMIT:
        raise InvalidService(
            f"{field}: it has {count} keys, and {SELECTOR_LIMIT} are allowed: name fewer labels, of which one is enough"
            " to select the pods of a workload"
        )


def _plain(selector: Selector) -> Selector:
    return {key: value for key, value in selector.items() if not key.startswith(names.PREFIX)}


def marks_of(annotations: Mapping[str, str]) -> set[str]:
    """Return annotations that the agent has added and no user has changed since.

    Admiralty keeps no list: all of them count as added.
    """
    present = {key for key in MARKS if annotations.get(key) == "true"}
    text = annotations.get(names.ANNOTATION_MARKS)
    if text is None:
        return present if names.ANNOTATION_ORIGINAL_SELECTOR in annotations else set()
    if annotations.get(ANNOTATION_CILIUM_AFFINITY) in AFFINITIES:
        present.add(ANNOTATION_CILIUM_AFFINITY)
    return _listed(annotations) & present


def _listed(annotations: Mapping[str, str]) -> set[str]:
    try:
        return set(msgspec.json.decode(annotations.get(names.ANNOTATION_MARKS, "[]"), type=list[str]))
    except msgspec.DecodeError:
        return set()


def _annotations(service: Mapping[str, Any]) -> dict[str, str]:
    return service["metadata"].get("annotations") or {}
