import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.model.podpolicy import image_refusal, prefix_flaw
from tests.examples import examples

PREFIXES = ("registry.example/team", "registry.example:5000/a/", "docker.io/library", "localhost")


@pytest.mark.parametrize(
    "image",
    [
        "registry.example/team",
        "registry.example/team:1",
        "registry.example/team/web:1@sha256:" + "0" * 64,
        "registry.example/team/web__x/y-1.2_3",
        "registry.example:5000/a/b",
        "docker.io/nginx:latest",
        "docker.io/library/nginx",
        "localhost/x",
    ],
)
def test_an_image_below_a_prefix_is_allowed(image: str) -> None:
    assert image_refusal(image, PREFIXES) == ""


@pytest.mark.parametrize(
    "image",
    [
        "registry.example/team-evil",
        "registry.example/teams/web",
        "registry.example/web",
        "registry.example.evil/team/web",
        "registry.example:5000/team/web",
        "registry.example:5000/ab",
        "REGISTRY.example/team/web",
        "docker.io/evil/nginx",
        "docker.io/library-evil/nginx",
        "localhost:5000/x",
    ],
)
def test_one_that_only_looks_alike_is_not(image: str) -> None:
    assert "none of the prefixes" in image_refusal(image, PREFIXES)


@pytest.mark.parametrize(
    "image",
    [
        "nginx",
        "library/nginx",
        "0123456789ab",
        "sha256:" + "0" * 64,
        "registry.example",
        "registry.example/",
        "registry.example/team/../evil",
        "registry.example/team//web",
        "registry.example/team/%2e%2e/evil",
        "registry.example/team/Web",
        "registry.example/team:tag/evil",
        "registry.example@evil.example/team",
        "https://registry.example/team",
        "registry.example/team\n",
        " registry.example/team",
        "registry.example/" + "a" * 600,
        "",
        None,
        5,
        ["registry.example/team"],
    ],
)
def test_what_names_no_registry_or_is_no_name_is_not_allowed(image: object) -> None:
    assert "names no registry" in image_refusal(image, PREFIXES)


@pytest.mark.parametrize(
    "prefix",
    [
        "team",
        "team/web",
        "registry.example/team:1",
        "registry.example/team@sha256:0",
        "registry.example//",
        "",
        "/",
        ".",
    ],
)
def test_a_prefix_that_is_none_has_a_flaw_and_allows_nothing(prefix: str) -> None:
    assert "write the registry's host" in prefix_flaw(prefix)
    assert image_refusal("registry.example/team/web", [prefix])
    assert image_refusal("team/web", [prefix])


@pytest.mark.parametrize("prefix", [*PREFIXES, "registry.example", "[::1]:5000/team", "10.0.0.1/x"])
def test_a_prefix_that_begins_with_a_registry_has_none(prefix: str) -> None:
    assert prefix_flaw(prefix) == ""


@settings(max_examples=examples(500))
@given(st.text(max_size=40), st.lists(st.text(max_size=20), max_size=3))
def test_whatever_the_text_there_is_a_verdict(image: str, prefixes: list[str]) -> None:
    assert isinstance(image_refusal(image, prefixes), str)
    assert all(isinstance(prefix_flaw(prefix), str) for prefix in prefixes)


@settings(max_examples=examples(500))
@given(st.lists(st.sampled_from(["a", "b", "-", "/", ":", "@", ".", "reg.io", "_"]), max_size=8).map("".join))
def test_what_is_allowed_begins_with_the_prefix_and_ends_or_goes_on_at_a_boundary(rest: str) -> None:
    image = f"reg.io/a{rest}"
    if not image_refusal(image, ["reg.io/a"]):
        assert image.startswith("reg.io/a")
        assert rest[:1] in ("", "/", ":", "@")
