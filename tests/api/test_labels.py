import pytest

from agent.api.labels import is_key, is_value


@pytest.mark.parametrize(
    "key", ["a", "A_b.c-9", "x" * 63, "cluster.clusterset.k8s.io", "example.com/region", "a-b.c/d", f"{'a' * 253}/n"]
)
def test_keys_that_api_servers_take(key: str) -> None:
    assert is_key(key)


@pytest.mark.parametrize(
    "key", ["", "x" * 64, "-a", "a.", "a b", "/a", "a/", "a/b/c", "Example.com/a", "a..b/c", f"{'a' * 254}/n", "a\n"]
)
def test_keys_that_they_refuse(key: str) -> None:
    assert not is_key(key)


@pytest.mark.parametrize("value", ["", "a", "9", "x" * 63, "a_b.C-d"])
def test_values_that_api_servers_take(value: str) -> None:
    assert is_value(value)


@pytest.mark.parametrize("value", ["x" * 64, "-", "a-", ".a", "a b", "a/b", "ä", "a\n"])
def test_values_that_they_refuse(value: str) -> None:
    assert not is_value(value)
