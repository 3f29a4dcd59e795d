"""Cached fields of a namespace: everything that decides whether and how its pods are sent to targets."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from agent.api import names
from agent.api.kinds import NAMESPACES
from agent.api.names.p2code import FILTER
from agent.clusters.stores.namespaces import reduce
from agent.kube.store import Object
from agent.model.namespaces import is_enabled, not_enabled

OURS = st.sampled_from((names.PREFIX, names.SHORT_PREFIX, f"{FILTER}.")).flatmap(
    lambda prefix: st.text().map(prefix.__add__)
)
PAIRS = st.dictionaries(OURS | st.text(), st.text(), max_size=5)


@given(st.none() | PAIRS, st.none() | PAIRS, st.booleans())
def test_labels_and_annotations_that_mean_something_are_kept(
    labels: dict[str, str] | None, annotations: dict[str, str] | None, deleting: bool
) -> None:
    metadata = {"name": "team", "uid": "u", "resourceVersion": "7", "labels": labels, "annotations": annotations}
    metadata |= {"deletionTimestamp": "2026-01-01T00:00:00Z"} if deleting else {}
    whole = {"metadata": metadata, "spec": {"finalizers": ["kubernetes"]}, "status": {"phase": "Active"}}
    kept = Object(NAMESPACES, reduce(msgspec.json.encode(whole)))
    assert (kept.key, kept.uid, kept.version, kept.deleting) == (("", "team"), "u", "7", deleting)
    assert kept.labels == (labels or {})
    assert kept.annotations == {key: value for key, value in (annotations or {}).items() if _means_something(key)}


def _means_something(key: str) -> bool:
    return names.is_ours(key) or (key.startswith(FILTER) and "/" not in key)


def test_only_the_label_with_its_value_enables() -> None:
    assert is_enabled({"multicluster-scheduler": "enabled", "team": "a"})
    for labels in (None, {}, {"multicluster-scheduler": "true"}, {"team": "enabled"}):
        assert not is_enabled(labels)
    assert not_enabled("team").endswith(": kubectl label namespace team multicluster-scheduler=enabled")
