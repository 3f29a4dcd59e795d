from pathlib import Path

import pytest
import yaml

from agent.kube import config, kubeconfig
from agent.kube.errors import InvalidConfig


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


def test_a_token_is_exchanged_and_nothing_else() -> None:
    found = document("cd")
    kubeconfig.set_token(found, "new", "cd")
    assert found["users"] == [{"name": "cd", "user": {"token": "new"}}]
    assert found == document("cd") | {"users": found["users"]}
