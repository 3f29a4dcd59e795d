import contextlib
from pathlib import Path

import msgspec
import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from agent.kube import config, kubeconfig
from agent.kube.errors import InvalidConfig
from tests.examples import examples


def document(name: str, server: str = "", **cluster: str) -> kubeconfig.Entry:
    server = server or f"https://{name}:6443"
    return kubeconfig.with_token(name, {"server": server, **cluster}, "default", f"token-of-{name}")


def write(path: Path, content: kubeconfig.Entry) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(yaml.safe_dump(content))
    return path


def test_several_files_are_one_kubeconfig_and_the_first_that_says_something_wins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = write(tmp_path / "a", document("cd"))
    second = write(tmp_path / "b", document("cd", "https://another") | {"current-context": "us"})
    third = write(tmp_path / "c", document("us"))
    monkeypatch.setenv("KUBECONFIG", f"{first}:{second}:{tmp_path / 'missing'}::{third}")
    found = kubeconfig.merged(kubeconfig.files())
    assert [each["name"] for each in found["contexts"]] == ["cd", "us"]
    assert kubeconfig.context_of(found)[0] == "cd"
    assert kubeconfig.cluster_of(found)["server"] == "https://cd:6443"
    assert kubeconfig.token_of(found, "us") == "token-of-us"
    monkeypatch.setattr(config, "SERVICE_ACCOUNT", tmp_path / "none")
    assert config.load(context="us").server == "https://us:6443"


def test_files_that_a_kubeconfig_names_are_found_beside_it(tmp_path: Path) -> None:
    written = document("cd", **{"certificate-authority": "ca.crt"})
    path = write(tmp_path / "deep" / "config", written)
    found = kubeconfig.merged([path])
    assert kubeconfig.cluster_of(found)["certificate-authority"] == str(path.parent / "ca.crt")


def test_files_are_embedded_whose_contents_are_given_except_tokens() -> None:
    written = document("cd", **{"certificate-authority": "/var/run/ca.crt"})
    written["users"][0]["user"] = {"client-certificate": "tls.crt", "client-key": "other.key", "tokenFile": "token"}
    kubeconfig.embed(written, {"ca.crt": b"CA", "tls.crt": b"CERTIFICATE", "token": b"t0ken"})
    assert kubeconfig.cluster_of(written) == {
        "server": "https://cd:6443",
        "certificate-authority-data": kubeconfig.embedded(b"CA"),
    }
    assert written["users"][0]["user"] == {
        "client-certificate-data": kubeconfig.embedded(b"CERTIFICATE"),
        "client-key": "other.key",
        "tokenFile": "token",
    }


def test_where_there_is_no_file_all_places_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidConfig, match=f"no kubeconfig at {tmp_path}/x: give one"):
        kubeconfig.files(str(tmp_path / "x"))
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/x:{tmp_path}/y")
    with pytest.raises(InvalidConfig, match=f"{tmp_path}/x:{tmp_path}/y"):
        kubeconfig.files()


def test_of_several_files_the_one_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    good = write(tmp_path / "good", document("cd"))
    empty = tmp_path / "empty"
    empty.touch()
    with pytest.raises(InvalidConfig, match=f"^{empty}: kubeconfig is not an object"):
        kubeconfig.merged([good, empty])


def test_a_context_that_does_not_exist_is_answered_with_those_that_do() -> None:
    with pytest.raises(InvalidConfig, match=r"no context named 'eu' \(it has: cd\)"):
        kubeconfig.cluster_of(document("cd"), "eu")


SECRET = "s3cr3t"
LAUGHING = "\n".join(["a0: &a0 [s3cr3t]", *(f"a{n + 1}: &a{n + 1} [{', '.join([f'*a{n}'] * 9)}]" for n in range(9))])
LONG_NAME = f"n: &n '{SECRET * 50}'\ncontexts: [{', '.join(['{name: *n}'] * 500)}]\ncurrent-context: x"


@pytest.mark.parametrize(
    ("text", "want"),
    [
        (LAUGHING, "aliases written out"),
        ("current-context: [s3cr3t]", "current-context is not text: write it in quotes"),
        (LONG_NAME, "no context named 'x'"),
        ("contexts: [{name: [*a]}]", "it cannot be written out"),
        ("a: s3cr3t: s3cr3t", r"neither YAML nor JSON: it is not YAML \(line 1\)"),
        ("s3cr3t: a\ns3cr3t: b", "a key is there twice"),
        ("a: !!s3cr3t b", "a tag is not allowed"),
        ("[" * 9999, "nested too deeply"),
        ("a" * 70_000, "as YAML it may have 65536 characters, not 70000: write it as JSON"),
        (" " * 1_100_000, "it has 1100000 characters, and 1048576 are allowed"),
    ],
)
def test_what_is_wrong_with_a_kubeconfig_is_told_without_its_content(text: str, want: str) -> None:
    with pytest.raises(InvalidConfig, match=want) as caught:
        config.parse(text)
    assert len(str(caught.value)) < 1000
    if text is not LONG_NAME:
        assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("part", "field"),
    [
        *(("cluster", field) for field in ("server", "proxy-url", "tls-server-name", "certificate-authority-data")),
        *(("user", field) for field in ("token", "tokenFile", "username", "password", "client-key-data")),
        *(("context", field) for field in ("cluster", "user", "namespace")),
    ],
)
@pytest.mark.parametrize("value", [5, True, [SECRET], {"a": SECRET}], ids=["a number", "a flag", "a list", "an object"])
def test_a_field_that_is_not_text_is_named(part: str, field: str, value: object) -> None:
    found = document("cd")
    (entry,) = found[f"{part}s"]
    entry[part][field] = value
    with pytest.raises(InvalidConfig, match=f"{part} 'cd': {field} is not text: write it in quotes") as caught:
        config.of_document(found)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize("value", ["false", 1, []])
def test_a_flag_is_true_or_false(value: object) -> None:
    found = document("cd")
    found["clusters"][0]["cluster"]["insecure-skip-tls-verify"] = value
    with pytest.raises(InvalidConfig, match="insecure-skip-tls-verify is neither true nor false"):
        config.of_document(found)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
FIELDS = st.sampled_from(
    ["server", "token", "user", "cluster", "namespace", "proxy-url", "certificate-authority-data", "client-key-data"]
)


@settings(max_examples=examples(300), deadline=None)
@given(st.sampled_from(["cluster", "user", "context"]), st.dictionaries(FIELDS, VALUES), VALUES, st.booleans())
def test_any_kubeconfig_gives_a_connection_or_the_error(
    part: str, fields: dict[str, object], current: object, as_yaml: bool
) -> None:
    found = document("cd", "http://cd")
    found[f"{part}s"][0][part] |= fields
    if current:
        found["current-context"] = current
    text = yaml.safe_dump(found) if as_yaml else msgspec.json.encode(found).decode()
    try:
        assert config.parse(text).server.startswith("http")
    except InvalidConfig as error:
        refused = str(error)
        assert len(refused) < 500


@settings(max_examples=examples(300), deadline=None)
@given(st.binary(max_size=100) | st.text(max_size=100))
def test_any_bytes_give_a_connection_or_the_error(data: bytes | str) -> None:
    with contextlib.suppress(InvalidConfig):
        config.parse(data)


def test_a_token_is_exchanged_and_nothing_else() -> None:
    found = document("cd")
    kubeconfig.set_token(found, "new", "cd")
    assert found["users"] == [{"name": "cd", "user": {"token": "new"}}]
    assert found == document("cd") | {"users": found["users"]}
