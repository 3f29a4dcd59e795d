"""JSONPath in kubectl's syntax."""

from typing import Any

import pytest

from agent.model.jsonpath import InvalidPath, find

POD: dict[str, Any] = {
    "metadata": {"name": "web", "labels": {"app.kubernetes.io/name": "shop"}},
    "spec": {"containers": [{"name": "a", "image": "x", "cpu": 1}, {"name": "b", "image": "y", "cpu": 2}]},
    "status": {
        "ready": True,
        "conditions": [{"type": "Ready", "status": "True"}, {"type": "Other", "status": "False"}],
    },
}


@pytest.mark.parametrize(
    ("path", "found"),
    [
        (".metadata.name", ["web"]),
        ("$.metadata.name", ["web"]),
        ("metadata.name", ["web"]),
        (".metadata['name']", ["web"]),
        (r".metadata.labels.app\.kubernetes\.io/name", ["shop"]),
        (".metadata.labels['app.kubernetes.io/name']", ["shop"]),
        (".status.missing.field", []),
        (".metadata.name.too.deep", []),
        (".spec.containers[0].image", ["x"]),
        (".spec.containers[-1].image", ["y"]),
        (".spec.containers[2].image", []),
        (".spec.containers[*].name", ["a", "b"]),
        (".spec.containers[0:1].name", ["a"]),
        (".spec.containers[0,1].image", ["x", "y"]),
        ("..image", ["x", "y"]),
        (".metadata['name','missing']", ["web"]),
        ('.status.conditions[?(@.type=="Ready")].status', ["True"]),
        (".status.conditions[?(@.type != 'Ready')].type", ["Other"]),
        (".spec.containers[?(@.cpu>1)].name", ["b"]),
        (".spec.containers[?(@.cpu<=1)].name", ["a"]),
        (".spec.containers[?(@.missing)].name", []),
        (".spec.containers[?(@.image)].name", ["a", "b"]),
        (".spec.containers[?(@.name > 1)].name", []),
        (".status.ready", [True]),
        (".metadata.labels.*", ["shop"]),
    ],
)
def test_a_path_gives_its_values(path: str, found: list[object]) -> None:
    assert find(path, POD) == found


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        (".spec[", "closing"),
        (".spec.[0", "closing"),
        (".spec..", "name is missing"),
        (".spec[]", "empty"),
        (".spec[one two]", "no index"),
        (".spec[?(@.a == b)]", "no value"),
        (".spec[0:3:0]", "step"),
        ("." + "a" * 2000, "characters"),
        (".a b", "unexpected"),
        ("..a..b", "recursive descent"),
        ("..*", "values"),
    ],
)
def test_an_invalid_path_is_refused_with_the_reason(path: str, reason: str) -> None:
    wide = {str(number): {str(inner): {"x": {}} for inner in range(100)} for number in range(100)}
    with pytest.raises(InvalidPath, match=reason):
        find(path, wide)


def test_blanks_in_an_invalid_slice_cost_no_time() -> None:
    blanks = " " * 300
    with pytest.raises(InvalidPath, match="is no index"):
        find(f".a[0,{blanks}:{blanks}:{blanks}x]", {})
