"""Downloads from a local server with the layout of the real ones."""

import hashlib
import io
import json
import os
import tarfile
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from aiohttp import web
from yarl import URL

from agent.cli.progress import Silent
from hack.lab.sandbox.download import DownloadError, Release, expected_digest, fetch, release

KUBECTL = b"#!/bin/sh\necho kubectl\n" * 1000
ETCD = b"#!/bin/sh\necho etcd\n" * 1000
KWOK = b"#!/bin/sh\necho kwok\n" * 1000


def digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def etcd_archive() -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        member = tarfile.TarInfo("etcd-v3.6.8-linux-amd64/etcd")
        member.size = len(ETCD)
        archive.addfile(member, io.BytesIO(ETCD))
    return buffer.getvalue()


class Mirror:
    """Server of files by path; a path in `cut` breaks off in the middle."""

    def __init__(self) -> None:
        kubectl = "/k8s/v1.36.3/bin/linux/amd64/kubectl"
        etcd = "/gh/etcd-io/etcd/releases/download/v3.6.8"
        archive = etcd_archive()
        assets = [{"name": "kwok-linux-amd64", "digest": f"sha256:{digest(KWOK)}"}]
        self.files: dict[str, bytes] = {
            kubectl: KUBECTL,
            f"{kubectl}.sha256": digest(KUBECTL).encode(),
            f"{etcd}/etcd-v3.6.8-linux-amd64.tar.gz": archive,
            f"{etcd}/SHA256SUMS": f"{'0' * 64}  other\n{digest(archive)}  etcd-v3.6.8-linux-amd64.tar.gz\n".encode(),
            "/gh/kubernetes-sigs/kwok/releases/download/v0.8.0/kwok-linux-amd64": KWOK,
            "/api/repos/kubernetes-sigs/kwok/releases/tags/v0.8.0": json.dumps({"assets": assets}).encode(),
        }
        self.cut: set[str] = set()
        self.asked: list[str] = []

    async def answer(self, request: web.Request) -> web.StreamResponse:
        self.asked.append(request.path)
        content = self.files.get(request.path)
        if content is None:
            raise web.HTTPNotFound
        if request.path not in self.cut:
            return web.Response(body=content)
        response = web.StreamResponse(headers={"Content-Length": str(len(content))})
        await response.prepare(request)
        await response.write(content[: len(content) // 2])
        assert request.transport is not None
        request.transport.close()
        return response


@pytest_asyncio.fixture
async def mirror(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Mirror]:
    mirror = Mirror()
    app = web.Application()
    app.router.add_get("/{path:.*}", mirror.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    for variable, path in (("KUBERNETES", "k8s"), ("GITHUB", "gh"), ("GITHUB_API", "api")):
        monkeypatch.setenv(f"FLOTILLA_{variable}_URL", f"http://{host}:{port}/{path}")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    yield mirror
    await runner.cleanup()


async def get(folder: Path, *programs: str) -> None:
    await fetch(programs, "amd64", folder, Silent())


def files(folder: Path) -> set[str]:
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


async def test_every_program_arrives_verified_unpacked_and_executable(mirror: Mirror, tmp_path: Path) -> None:
    await get(tmp_path / "bin", "kubectl", "etcd", "kwok")
    assert {name: (tmp_path / "bin" / name).read_bytes() for name in ("kubectl", "etcd", "kwok")} == {
        "kubectl": KUBECTL,
        "etcd": ETCD,
        "kwok": KWOK,
    }
    assert all(path.stat().st_mode & 0o111 for path in (tmp_path / "bin").iterdir())
    assert files(tmp_path) == {"bin/kubectl", "bin/etcd", "bin/kwok"}


async def test_what_is_there_is_not_downloaded_again(mirror: Mirror, tmp_path: Path) -> None:
    await get(tmp_path / "bin", "kubectl")
    mirror.asked.clear()
    await get(tmp_path / "bin", "kubectl", "kwok")
    assert not any("kubectl" in path for path in mirror.asked)


@pytest.mark.parametrize("program", ["kubectl", "etcd", "kwok"])
async def test_a_file_with_another_checksum_is_refused_and_not_kept(
    mirror: Mirror, tmp_path: Path, program: str
) -> None:
    path = URL(release(program, "amd64").url).path
    mirror.files[path] += b"evil"
    with pytest.raises(DownloadError, match="SHA-256"):
        await get(tmp_path / "bin", program)
    assert os.listdir(tmp_path) == []


async def test_a_download_that_breaks_off_is_tried_again_and_leaves_nothing(mirror: Mirror, tmp_path: Path) -> None:
    mirror.cut = {path for path in mirror.files if path.endswith("/kubectl")}
    with pytest.raises(DownloadError, match="kubectl"):
        await get(tmp_path / "bin", "kubectl")
    assert sum(path in mirror.cut for path in mirror.asked) == 3
    assert os.listdir(tmp_path) == []


async def test_a_missing_release_is_named(mirror: Mirror, tmp_path: Path) -> None:
    mirror.files.clear()
    with pytest.raises(DownloadError, match=r"kubectl\.sha256 answers 404"):
        await get(tmp_path / "bin", "kubectl")


async def test_without_network_it_says_what_cannot_be_reached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("FLOTILLA_KUBERNETES_URL", "http://127.0.0.1:1")
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with pytest.raises(DownloadError, match=r"cannot connect to 127\.0\.0\.1:1"):
        await get(tmp_path / "bin", "kubectl")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("text", ["", "<html>not found</html>", '{"assets": []}', "0" * 63])
@pytest.mark.parametrize("form", ["alone", "list", "github"])
def test_a_checksum_document_without_a_checksum_is_refused(text: str, form: str) -> None:
    with pytest.raises(DownloadError, match="no SHA-256"):
        expected_digest(Release("p", "http://x/p", "http://x/sums", form), text)  # type: ignore[arg-type]
