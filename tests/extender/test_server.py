"""Access to the extender: accepted clients, and requests refused to all."""

import asyncio
import datetime
import socket
import ssl
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from agent.base.certificates import Pair
from agent.base.clock import SystemClock
from agent.clusters.cluster import Cluster
from agent.extender.server import Extender
from agent.kube.config import load
from agent.settings import InvalidSetting, Settings
from hack.lab.sandbox import Cluster as SandboxCluster
from hack.lab.sandbox.certificates import Authority
from tests.extender.candidates import Asker, serving
from tests.kube.kubeconfigs import kubeconfig
from tests.runtime.test_health import free_port

pytestmark = pytest.mark.cluster

NOBODY: dict[str, Any] = {"metadata": {"name": "web", "namespace": "default", "uid": "u"}}


def write(directory: Path, name: str, pair: Pair) -> tuple[str, str]:
    certificate, key = directory / f"{name}.crt", directory / f"{name}.key"
    certificate.write_bytes(pair.certificate)
    key.write_bytes(pair.key)
    return str(certificate), str(key)


def damage(path: Path, content: bytes | None) -> None:
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content)


class Files:
    """Certificates of the extender and of a scheduler, signed by two different CAs."""

    def __init__(self, directory: Path) -> None:
        now = datetime.datetime.now(datetime.UTC)
        self.servers, self.clients = Authority("servers", now), Authority("clients", now)
        self.directory = directory
        (directory / "clients.crt").write_bytes(self.clients.pair.certificate)
        certificate, key = write(directory, "extender", self.servers.serving(["127.0.0.1"]))
        self.settings = {
            "extender_cert": certificate,
            "extender_key": key,
            "extender_client_ca": str(directory / "clients.crt"),
        }

    def client(self, authority: Authority | None) -> ssl.SSLContext:
        """Return a scheduler's HTTP client; without an authority, it has no certificate."""
        context = ssl.create_default_context(cadata=self.servers.pair.certificate.decode())
        if authority is not None:
            context.load_cert_chain(*write(self.directory, "scheduler", authority.client("scheduler")))
        return context


async def test_with_tls_a_scheduler_whose_certificate_our_ca_has_signed_is_served(
    cluster: SandboxCluster, tmp_path: Path
) -> None:
    files = Files(tmp_path)
    async with serving(cluster, tls=files.client(files.clients), **files.settings) as asker:
        assert "does not exist any more" in await asker.bind(NOBODY, "n")


@pytest.mark.parametrize("other", [False, True], ids=["no certificate", "a certificate of another CA"])
async def test_with_tls_nobody_else_is_served(cluster: SandboxCluster, tmp_path: Path, other: bool) -> None:
    files = Files(tmp_path)
    tls = files.client(files.servers if other else None)
    async with serving(cluster, tls=tls, **files.settings) as asker:
        with pytest.raises((aiohttp.ClientError, OSError)):
            await asker.bind(NOBODY, "n")


async def test_with_tls_plain_http_is_not_served(cluster: SandboxCluster, tmp_path: Path) -> None:
    files = Files(tmp_path)
    address = f"127.0.0.1:{free_port()}"
    async with serving(cluster, extender_address=address, **files.settings), aiohttp.ClientSession() as http:
        with pytest.raises((aiohttp.ClientError, OSError)):
            await Asker(http, f"http://{address}").bind(NOBODY, "n")


async def test_a_renewed_certificate_is_served_without_a_restart(
    cluster: SandboxCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.extender.server._CERTIFICATE_SECONDS", 0.05)
    files = Files(tmp_path)
    address = f"127.0.0.1:{free_port()}"
    async with serving(cluster, extender_address=address, **files.settings):
        renewed = Authority("others", datetime.datetime.now(datetime.UTC))
        write(tmp_path, "extender", renewed.serving(["127.0.0.1"]))
        files.servers = renewed
        tls = files.client(files.clients)
        async with asyncio.timeout(20), aiohttp.ClientSession() as http:
            while True:
                try:
                    assert "does not exist" in await Asker(http, f"https://{address}", tls).bind(NOBODY, "n")
                    break
                except (aiohttp.ClientError, OSError):
                    await asyncio.sleep(0.05)


@pytest.mark.parametrize(
    ("setting", "content", "words"),
    [
        ("extender_cert", b"", "extender-cert=.*, extender-key=.*: no certificate and key in PEM that fit"),
        ("extender_key", None, "extender-key="),
        ("extender_client_ca", b"no PEM", "--tuning=extender-client-ca=.*: no CA certificate in PEM"),
    ],
)
async def test_files_that_cannot_be_used_are_named_at_the_start(
    cluster: SandboxCluster, tmp_path: Path, setting: str, content: bytes | None, words: str
) -> None:
    files = Files(tmp_path)
    damage(Path(files.settings[setting]), content)
    local = Cluster(load(str(cluster.kubeconfig)), "local")
    with pytest.raises(InvalidSetting, match=words):
        Extender(local, SystemClock(), Settings(extender_address="0.0.0.0:1", **files.settings))
    await local.close()


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no ExtenderBindingArgs"),
        (b'{"PodName": 1}', "no ExtenderBindingArgs"),
        (b"[" * 60_000, "no ExtenderBindingArgs"),
        (b" " * 70_000, "longer than 65536 bytes"),
        (b'{"PodName":"a/b","PodNamespace":"c","PodUID":"d","Node":"e"}', "PodName 'a/b' cannot be one"),
    ],
    ids=["nothing", "another type", "depth", "length", "a path"],
)
async def test_a_body_that_makes_no_sense_is_answered_with_the_reason(
    cluster: SandboxCluster, body: bytes, words: str
) -> None:
    async with serving(cluster) as asker:
        assert words in await asker.post(body)
        assert "does not exist any more" in await asker.bind(NOBODY, "n")


async def test_only_binds_are_served(cluster: SandboxCluster) -> None:
    address = f"127.0.0.1:{free_port()}"
    async with serving(cluster, extender_address=address), aiohttp.ClientSession() as http:
        for method, path, want in (("GET", "/bind", 405), ("POST", "/filter", 404), ("GET", "/metrics", 404)):
            async with http.request(method, f"http://{address}{path}") as answer:
                assert answer.status == want


async def test_a_client_that_never_sends_its_body_is_answered(
    cluster: SandboxCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.extender.server._BODY_SECONDS", 0.2)
    port = free_port()
    async with serving(cluster, extender_address=f"127.0.0.1:{port}"):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /bind HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
        answer = await asyncio.wait_for(reader.readuntil(b'"}'), 20)
        assert b"the body did not come within" in answer
        writer.close()
        await writer.wait_closed()


async def test_while_the_api_server_cannot_be_read_the_scheduler_is_told_to_ask_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agent.extender.gather._SYNC_SECONDS", 0.3)
    path = tmp_path / "kubeconfig"
    path.write_bytes(kubeconfig(cluster={"server": f"https://127.0.0.1:{free_port()}"}))
    local = Cluster(load(str(path)), "local")
    extender = Extender(local, SystemClock(), Settings(extender_address=f"127.0.0.1:{(port := free_port())}"))
    await extender.start()
    serving = asyncio.create_task(extender.run())
    async with aiohttp.ClientSession() as http:
        answer = await Asker(http, f"http://127.0.0.1:{port}").bind(NOBODY, "n")
    assert "has not read this cluster's PodChaperons yet" in answer
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)
    await local.close()


async def test_a_port_that_is_taken_is_an_error_at_the_start(cluster: SandboxCluster) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        with pytest.raises(OSError, match="address already in use"):
            async with serving(cluster, extender_address=f"127.0.0.1:{port}"):
                pass
