"""Official releases: Kubernetes from dl.k8s.io, etcd and kwok from GitHub, each file verified by its checksum.

A file appears in its folder complete, or not at all.
"""

import asyncio
import hashlib
import json
import os
import tarfile
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import aiohttp
import msgspec

from agent.cli.progress import Progress, Task
from hack.lab.sandbox import cache

KUBERNETES = "v1.36.3"
ETCD = "v3.6.8"
KWOK = "v0.8.0"
ATTEMPTS = 3

_BASES = {
    "kubernetes": ("FLOTILLA_KUBERNETES_URL", "https://dl.k8s.io/release"),
    "github": ("FLOTILLA_GITHUB_URL", "https://github.com"),
    "github-api": ("FLOTILLA_GITHUB_API_URL", "https://api.github.com"),
}
_CONNECT_SECONDS = 5.0
_READ_SECONDS = 30.0
_CHUNK = 1 << 20


class DownloadError(Exception):
    """A release cannot be downloaded."""


class Release(msgspec.Struct, frozen=True):
    """A file to download. `checksum` is the URL of its SHA-256: alone, in a list of names, or in GitHub's response."""

    program: str
    url: str
    checksum: str
    form: Literal["alone", "list", "github"]
    member: str = ""

    @property
    def file(self) -> str:
        """Name of the file in the release."""
        return self.url.rpartition("/")[2]


def base(name: str) -> str:
    """Return the base URL of releases; an environment variable may name a mirror."""
    variable, default = _BASES[name]
    return (os.environ.get(variable) or default).rstrip("/")


def release(program: str, architecture: str, kubernetes: str = KUBERNETES) -> Release:
    """Return a program's official release."""
    if program == "etcd":
        folder = f"{base('github')}/etcd-io/etcd/releases/download/{ETCD}"
        name = f"etcd-{ETCD}-linux-{architecture}"
        return Release(program, f"{folder}/{name}.tar.gz", f"{folder}/SHA256SUMS", "list", f"{name}/etcd")
    if program == "kwok":
        url = f"{base('github')}/kubernetes-sigs/kwok/releases/download/{KWOK}/kwok-linux-{architecture}"
        # kwok publishes no checksum files; GitHub's API contains the digest of each file of a release.
        return Release(program, url, f"{base('github-api')}/repos/kubernetes-sigs/kwok/releases/tags/{KWOK}", "github")
    url = f"{base('kubernetes')}/{kubernetes}/bin/linux/{architecture}/{program}"
    return Release(program, url, f"{url}.sha256", "alone")


def expected_digest(found: Release, text: str) -> str:
    """Return the SHA-256 (hex) of a release from a checksum document. Raises DownloadError if it contains none."""
    digest = ""
    if found.form == "alone":
        digest = text.strip().partition(" ")[0]
    elif found.form == "list":
        lines = (line.split() for line in text.splitlines())
        digest = next((line[0] for line in lines if len(line) == 2 and line[1].lstrip("*") == found.file), "")
    else:
        try:
            assets = {asset["name"]: asset.get("digest") or "" for asset in json.loads(text)["assets"]}
        except (ValueError, KeyError, TypeError):
            assets = {}
        digest = assets.get(found.file, "").removeprefix("sha256:")
    if len(digest) != 64 or set(digest.lower()) - set("0123456789abcdef"):
        raise DownloadError(f"{found.checksum} has no SHA-256 for {found.file}")
    return digest.lower()


async def fetch(
    programs: Sequence[str], architecture: str, folder: Path, progress: Progress, *, kubernetes: str = KUBERNETES
) -> None:
    """Download the missing ones of the named programs into a folder. Raises DownloadError, OSError."""
    wanted = [release(name, architecture, kubernetes) for name in programs if not os.access(folder / name, os.X_OK)]
    timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_SECONDS, sock_read=_READ_SECONDS)
    _make(folder)
    try:
        with progress, tempfile.TemporaryDirectory(prefix=cache.DOWNLOAD, dir=folder.parent) as temporary:
            task = progress.task("downloading the control plane")
            async with aiohttp.ClientSession(timeout=timeout, trust_env=True) as session:
                for number, found in enumerate(wanted):
                    await _fetch_one(session, found, Path(temporary), folder, _Share(task, number, len(wanted)))
            task.finish()
    finally:
        _remove_if_empty(folder)


@dataclass
class _Share:
    """Share of one file in the whole progress."""

    task: Task
    number: int
    files: int

    def update(self, name: str, done: int, total: int | None) -> None:
        note = f"{name} {done >> 20}" + (f"/{total >> 20} MiB" if total else " MiB")
        self.task.update(self.number + (done / total if total else 0), self.files, note)


async def _fetch_one(
    session: aiohttp.ClientSession, found: Release, temporary: Path, folder: Path, share: _Share
) -> None:
    for attempt in range(1, ATTEMPTS + 1):
        try:
            async with session.get(found.checksum) as response:
                response.raise_for_status()
                digest = expected_digest(found, await response.text())
            path = temporary / found.file
            actual = await _save(session, found, path, share)
            if actual != digest:
                raise DownloadError(f"{found.url} has the SHA-256 {actual}, but {found.checksum} says {digest}")
            program = await asyncio.to_thread(_unpack, found, path, temporary)
            program.chmod(0o755)
            program.replace(folder / found.program)
            return
        except aiohttp.ClientConnectorError as error:
            raise DownloadError(f"cannot connect to {error.host}:{error.port}") from error
        except aiohttp.ClientResponseError as error:
            raise DownloadError(f"{error.request_info.url} answers {error.status} {error.message}") from error
        except (aiohttp.ClientError, TimeoutError) as error:
            if attempt == ATTEMPTS:
                raise DownloadError(f"{found.url}: {str(error) or type(error).__name__}") from error


async def _save(session: aiohttp.ClientSession, found: Release, path: Path, share: _Share) -> str:
    digest = hashlib.sha256()
    async with session.get(found.url) as response:
        response.raise_for_status()
        done = 0
        with path.open("wb") as file:
            async for chunk in response.content.iter_chunked(_CHUNK):
                digest.update(chunk)
                file.write(chunk)
                done += len(chunk)
                share.update(found.program, done, response.content_length)
    return digest.hexdigest()


def _make(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)


def _remove_if_empty(folder: Path) -> None:
    if not any(folder.iterdir()):
        folder.rmdir()


def _unpack(found: Release, path: Path, temporary: Path) -> Path:
    if not found.member:
        return path
    program = temporary / found.program
    try:
        with tarfile.open(path) as archive:
            source = archive.extractfile(found.member)
            if source is None:
                raise DownloadError(f"{found.url}: {found.member} is not a file")
            with source, program.open("wb") as file:
                while chunk := source.read(_CHUNK):
                    file.write(chunk)
    except (tarfile.TarError, KeyError) as error:
        raise DownloadError(f"{found.url}: {error}") from error
    return program
