"""Container images without a registry: built from a directory tree, kept as one tar file, imported into nodes.

The same tree results in the same file, byte for byte: it has no times, and root owns everything.
"""

import hashlib
import io
import json
import os
import platform
import subprocess
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

from hack.lab.sandbox.errors import SandboxError
from hack.lab.sandbox.realnode.containerd import PAUSE_IMAGE

BUSYBOX_IMAGE = "flotilla.local/busybox:1"
STOCK = (PAUSE_IMAGE, BUSYBOX_IMAGE)
"""Images that every node has."""

_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
_PASSWD = "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"
_GROUP = "root:x:0:\nnobody:x:65534:\n"
# With a shared process namespace, a pod's first process has to reap orphans of other containers: `wait` does.
_PAUSE = 'trap exit TERM; while :; do sleep 2147483647 & wait "$!"; done'


@dataclass(frozen=True)
class Start:
    """Default process of a container; a pod may override it."""

    entrypoint: Sequence[str] = ()
    command: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    directory: str = "/"
    user: str = ""

    def config(self) -> dict[str, Any]:
        """Return the section `config` of an image's configuration."""
        return {
            "Entrypoint": list(self.entrypoint) or None,
            "Cmd": list(self.command) or None,
            "Env": [f"{name}={value}" for name, value in sorted(self.environment.items())],
            "WorkingDir": self.directory,
            "User": self.user,
        }


@dataclass(frozen=True)
class Image:
    """An image: name, directory trees as layers, the lowest first, and start.

    The name needs a registry and a tag, such as `flotilla.local/agent:1`. Pods use exactly this name, with
    `imagePullPolicy` `IfNotPresent` or `Never`.
    """

    name: str
    trees: tuple[Path, ...]
    start: Start

    def config(self, digests: Sequence[str]) -> bytes:
        """Return the image's configuration, with the digests of its layers."""
        created = "1970-01-01T00:00:00Z"
        return _json(
            {
                "architecture": _ARCHITECTURES.get(platform.machine(), platform.machine()),
                "os": "linux",
                "created": created,
                "config": self.start.config(),
                "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}" for digest in digests]},
                "history": [{"created": created} for _ in digests],
            }
        )


def build(tree: Path, file: Path, name: str, start: Start) -> Path:
    """Write an image of one layer to a file, in a format that `docker load` accepts. Raises SandboxError."""
    return build_all([Image(name, (tree,), start)], file)


def build_all(images: Sequence[Image], file: Path) -> Path:
    """Write images to one file, each tree once. Raises SandboxError if a tree or the file cannot be used."""
    for name in (image.name for image in images):
        if "/" not in name or "." not in name.partition("/")[0] or ":" not in name.rpartition("/")[2]:
            raise SandboxError(f"image name {name!r}: write HOST/NAME:TAG, such as {BUSYBOX_IMAGE}")
    try:
        with tarfile.open(file, "w", format=tarfile.PAX_FORMAT) as archive:
            trees = dict.fromkeys(tree for image in images for tree in image.trees)
            digests = {tree: _add_layer(archive, tree, file.parent) for tree in trees}
            index = [_add_image(archive, image, [digests[tree] for tree in image.trees]) for image in images]
            _add(archive, "manifest.json", _json(index))
    except OSError as error:
        made = ", ".join(image.name for image in images)
        raise SandboxError(f"{made} cannot be written to {file}: {error}") from error
    return file


def _add_image(archive: tarfile.TarFile, image: Image, layers: list[str]) -> dict[str, Any]:
    """Add the image's configuration. Return its entry in the file's index."""
    config = image.config(layers)
    name = f"{hashlib.sha256(config).hexdigest()}.json"
    _add(archive, name, config)
    return {"Config": name, "RepoTags": [image.name], "Layers": [f"{digest}.tar" for digest in layers]}


def _add_layer(archive: tarfile.TarFile, tree: Path, folder: Path) -> str:
    # Uses a file: a layer of hundreds of megabytes should not occupy memory.
    with tempfile.TemporaryFile(dir=folder) as layer:
        digest = _write_layer(tree, layer)
        _add(archive, f"{digest}.tar", layer)
    return digest


def _add(archive: tarfile.TarFile, name: str, content: bytes | BinaryIO) -> None:
    """Add a member unless it exists: all names except the index's are digests."""
    if name not in archive.getnames():
        file = io.BytesIO(content) if isinstance(content, bytes) else content
        member = tarfile.TarInfo(name)
        member.size, member.mode = file.seek(0, os.SEEK_END), 0o644
        file.seek(0)
        archive.addfile(member, file)


def build_stock(busybox: str, folder: Path) -> Path:
    """Build a file with the stock images: pause, and busybox with all its programs."""
    with tempfile.TemporaryDirectory(dir=folder) as temporary:
        tree = Path(temporary)
        busybox_tree(busybox, tree)
        path = {"PATH": "/bin"}
        pause = Start(entrypoint=("/bin/sh", "-c", _PAUSE), environment=path)
        shell = Start(command=("sh",), environment=path)
        stock = [Image(PAUSE_IMAGE, (tree,), pause), Image(BUSYBOX_IMAGE, (tree,), shell)]
        return build_all(stock, folder / "stock.tar")


def names(file: Path) -> list[str]:
    """Return the names of the images in a file. Raises SandboxError if it contains no images."""
    try:
        with tarfile.open(file) as archive:
            member = archive.extractfile("manifest.json")
            if member is None:
                raise KeyError("manifest.json is not a file")
            return [str(name) for entry in json.load(member) for name in entry["RepoTags"]]
    except (OSError, tarfile.TarError, KeyError, TypeError, ValueError) as error:
        raise SandboxError(f"{file} is not a file of images that `build` or `docker save` wrote: {error}") from error


def busybox_tree(busybox: str, tree: Path) -> None:
    """Write busybox with all its programs into an empty folder, as the tree of an image."""
    for name, mode in {"bin": 0o755, "etc": 0o755, "root": 0o700, "tmp": 0o1777, "var": 0o755}.items():
        (tree / name).mkdir()
        (tree / name).chmod(mode)
    (tree / "bin" / "busybox").write_bytes(Path(busybox).read_bytes())
    (tree / "bin" / "busybox").chmod(0o755)
    listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True).stdout.split()
    for applet in listed:
        if applet != "busybox":
            (tree / "bin" / applet).symlink_to("busybox")
    (tree / "etc" / "passwd").write_text(_PASSWD)
    (tree / "etc" / "group").write_text(_GROUP)


class _Hashing(io.RawIOBase):
    """A file that computes the digest of the written data."""

    def __init__(self, file: Any) -> None:
        self.digest = hashlib.sha256()
        self._file = file

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self.digest.update(data)
        return int(self._file.write(data))


def _write_layer(tree: Path, layer: Any) -> str:
    output = _Hashing(layer)
    # A stream ("|") writes every byte once and in order, so that the digest is that of the file.
    with tarfile.open(fileobj=output, mode="w|", format=tarfile.PAX_FORMAT) as archive:
        for path in sorted(tree.rglob("*")):
            member = archive.gettarinfo(path, str(path.relative_to(tree)))
            if member is None:
                continue  # An image cannot contain a socket.
            member.uid = member.gid = 0
            member.uname = member.gname = ""
            member.mtime = 0
            if member.isreg():
                with path.open("rb") as content:
                    archive.addfile(member, content)
            else:
                archive.addfile(member)
    layer.flush()
    return output.digest.hexdigest()


def _json(content: Any) -> bytes:
    return json.dumps(content, sort_keys=True, separators=(",", ":")).encode()
