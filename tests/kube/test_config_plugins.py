"""Real credential plugins: a shell script prints an ExecCredential."""

import asyncio
import json
from pathlib import Path

import pytest
import yaml

from agent.api.kinds import NAMESPACES, SERVICE_ACCOUNTS
from agent.kube import config
from agent.kube.client import Client
from agent.kube.config import parse
from agent.kube.errors import Forbidden, InvalidConfig, Unauthorized
from agent.kube.session import Session
from hack.lab.sandbox import Cluster
from tests.kube.kubeconfigs import kubeconfig
from tests.waiting import until

API = "client.authentication.k8s.io/v1"


def plugin(directory: Path, body: str) -> bytes:
    script = directory / "plugin.sh"
    script.write_text(f"#!/bin/sh\necho run >> {directory}/runs\n{body}\n")
    script.chmod(0o755)
    return kubeconfig({"exec": {"command": str(script), "apiVersion": API, "interactiveMode": "Never"}})


def credential(**status: str) -> str:
    return json.dumps({"apiVersion": API, "kind": "ExecCredential", "status": status})


def runs(directory: Path) -> int:
    return len((directory / "runs").read_text().splitlines())


async def test_a_plugins_token_is_sent_and_asked_for_once(tmp_path: Path) -> None:
    auth = parse(plugin(tmp_path, f"sleep 0.05; echo '{credential(token='t')}'"), plugins=True).auth
    assert set(await asyncio.gather(*(auth.header() for _ in range(5)))) == {"Bearer t"}
    assert runs(tmp_path) == 1
    auth.expire()
    assert await auth.header() == "Bearer t"
    assert runs(tmp_path) == 2


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo 'log in first' >&2; exit 1", "log in first"),
        ("echo nonsense", "failed to decode"),
        ("echo '{}'", "malformed response"),
        ("echo '[]'", "credential plugin failed"),
    ],
    ids=["fails", "prints no JSON", "prints something else", "prints a list"],
)
async def test_a_plugin_that_fails_says_why(tmp_path: Path, body: str, message: str) -> None:
    with pytest.raises(InvalidConfig, match=message):
        await parse(plugin(tmp_path, body), plugins=True).auth.header()


async def test_a_program_that_does_not_exist_is_named() -> None:
    text = kubeconfig({"exec": {"command": "/nonexistent/plugin", "apiVersion": API}})
    with pytest.raises(InvalidConfig, match="/nonexistent/plugin"):
        await parse(text, plugins=True).auth.header()


async def test_a_plugin_that_hangs_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "PLUGIN_SECONDS", 0.1)
    with pytest.raises(InvalidConfig, match=r"no answer within 0\.1 s"):
        await parse(plugin(tmp_path, f"sleep 0.3; touch {tmp_path}/ended"), plugins=True).auth.header()
    # asyncio has to observe the end of the abandoned process.
    await until((tmp_path / "ended").exists)
    await asyncio.sleep(0.1)


async def test_all_who_wait_for_a_plugin_that_hangs_are_told_together(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(config, "PLUGIN_SECONDS", 0.3)
    auth = parse(plugin(tmp_path, f"sleep 0.5; touch {tmp_path}/ended"), plugins=True).auth
    found = await asyncio.gather(*(auth.header() for _ in range(20)), return_exceptions=True)
    assert {str(each) for each in found} == {"context 'main': credential plugin gave no answer within 0.3 s"}
    await until((tmp_path / "ended").exists)
    assert runs(tmp_path) == 1
    await asyncio.sleep(0.1)


@pytest.mark.cluster
async def test_a_real_api_server_knows_who_a_plugins_token_belongs_to(
    tmp_path: Path, cluster: Cluster, client: Client, namespace: str
) -> None:
    await client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "robot"}}, namespace)
    request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {"name": "robot"}}
    token = (await client.create(SERVICE_ACCOUNTS, request, namespace, sub="token"))["status"]["token"]
    (tmp_path / "answer").write_text(credential(token="expired"))
    admin = yaml.safe_load(cluster.kubeconfig.read_text())
    text = yaml.safe_load(plugin(tmp_path, f"cat {tmp_path}/answer"))
    text["clusters"][0]["cluster"] = admin["clusters"][0]["cluster"]
    async with Session(parse(yaml.safe_dump(text), plugins=True)) as session:
        with pytest.raises(Unauthorized):
            await Client(session).get(NAMESPACES, namespace)
        (tmp_path / "answer").write_text(credential(token=token))
        with pytest.raises(Forbidden, match=f"system:serviceaccount:{namespace}:robot"):
            await Client(session).get(NAMESPACES, namespace)
