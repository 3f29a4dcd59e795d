"""File tree of the Flotilla image, built without Docker from this machine's Python; equivalent to the Dockerfile.

Contains interpreter, standard library, the packages that `flotilla[cel,cli,speed]` needs, and all shared
libraries.
"""

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from pathlib import Path

import msgspec

from hack.lab.sandbox.errors import SandboxError
from hack.lab.sandbox.objects import REPOSITORY
from hack.lab.sandbox.realnode import images

_VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
ENTRYPOINT = ("python", "-m")
COMMAND = ("agent",)
USER = "65532:65532"
ENVIRONMENT = {
    "PATH": "/usr/local/bin:/bin",
    # All libraries are in one folder; the interpreter may have been built with another search path.
    "LD_LIBRARY_PATH": "/usr/local/lib",
    # Debian's interpreter searches for packages in another folder.
    "PYTHONPATH": f"/usr/local/lib/python{_VERSION}/site-packages",
    "PYTHONUNBUFFERED": "1",
    "PYTHONDONTWRITEBYTECODE": "1",
}

_DISTRIBUTION = "flotilla"
_OWN = ("agent", "webhook")
_EXTRAS = {"cel", "cli", "speed"}
_NOT_NEEDED = shutil.ignore_patterns(
    "__pycache__", "site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip",
    "lib2to3", "config-*", "*.a",
)  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9][-A-Za-z0-9._]*")
_EXTRA = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_LIBRARY = re.compile(r"^\s*(?:\S+ => )?(/\S+) \(0x[0-9a-f]+\)$", re.MULTILINE)
_PASSWD = "root:x:0:0:root:/:/bin/false\nflotilla:x:65532:65532:flotilla:/tmp:/bin/false\n"


class _Place(msgspec.Struct, frozen=True):
    """Paths in the tree."""

    root: Path

    @property
    def programs(self) -> Path:
        return self.root / "usr/local/bin"

    @property
    def libraries(self) -> Path:
        return self.root / "usr/local/lib"

    @property
    def python(self) -> Path:
        return self.libraries / f"python{_VERSION}"

    @property
    def packages(self) -> Path:
        return self.python / "site-packages"


def write_tree(folder: Path, source: Path = REPOSITORY) -> Path:
    """Write the tree of a checkout into an empty or missing folder. Raises SandboxError if a part is missing."""
    return write_own(write_base(folder), source)


def write_base(folder: Path) -> Path:
    """Write the tree without Flotilla's packages: equal for all checkouts, and ten times as slow to write as these."""
    place = _Place(folder)
    try:
        for path in (place.programs, place.libraries, folder / "etc", folder / "tmp"):
            path.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o755)
        (folder / "tmp").chmod(0o1777)
        (folder / "etc/passwd").write_text(_PASSWD)
        shutil.copytree(sysconfig.get_path("stdlib"), place.python, ignore=_NOT_NEEDED)
        _write_packages(place)
        _write_programs(place)
        _write_libraries(place)
        _compile(place.root, place.python)
    except (OSError, subprocess.CalledProcessError, importlib.metadata.PackageNotFoundError) as error:
        raise SandboxError(f"our own image cannot be made: {error}") from error
    return folder


def write_own(folder: Path, source: Path) -> Path:
    """Copy a checkout's packages into a tree or an empty folder; replaces existing ones.

    Raises SandboxError if a part is missing.
    """
    packages = _Place(folder).packages
    try:
        for package in _OWN:
            if (packages / package).exists():
                shutil.rmtree(packages / package)
            ignored = shutil.ignore_patterns("__pycache__")
            shutil.copytree(source / package, packages / package, ignore=ignored)
        _compile(folder, *(packages / package for package in _OWN))
    except (OSError, subprocess.CalledProcessError) as error:
        raise SandboxError(f"our own image cannot be made: {error}") from error
    return folder


def build(file: Path, name: str, source: Path = REPOSITORY) -> Path:
    """Build the Flotilla image of a checkout as a file that nodes can import. Raises SandboxError."""
    return build_all(file, {name: source})


def build_all(file: Path, sources: Mapping[str, Path], base: Path | None = None) -> Path:
    """Build the images of several checkouts, by name, as one file with a common base layer. Raises SandboxError.

    :param base: a tree by `write_base`; None builds one
    """
    start = images.Start(ENTRYPOINT, COMMAND, ENVIRONMENT, user=USER)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        base = base or write_base(Path(folder) / "base")
        own = [write_own(Path(folder) / str(number), source) for number, source in enumerate(sources.values())]
        named = zip(sources, own, strict=True)
        return images.build_all([images.Image(name, (base, tree), start) for name, tree in named], file)


def build_program(program: Path, file: Path, name: str) -> Path:
    """Build an image of one program, such as a kube-scheduler, with its shared libraries. Raises SandboxError."""
    environment = {name: ENVIRONMENT[name] for name in ("PATH", "LD_LIBRARY_PATH")}
    start = images.Start((program.name,), environment=environment, user=USER)
    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        place = _Place(Path(folder))
        place.root.chmod(0o755)
        (place.root / "tmp").mkdir()
        (place.root / "tmp").chmod(0o1777)
        place.programs.mkdir(parents=True)
        place.libraries.mkdir()
        try:
            shutil.copy2(program.resolve(), place.programs / program.name)
            _copy_libraries(place, _shared([program]))
        except OSError as error:
            raise SandboxError(f"the image of {program.name} cannot be made: {error}") from error
        return images.build(place.root, file, name, start)


def distributions(extras: Collection[str] = _EXTRAS) -> list[str]:
    """Return the names of the installed packages that Flotilla needs with these extras, without its own."""
    found: dict[str, None] = {}
    waiting = list(requirements(_DISTRIBUTION, extras))
    while waiting:
        name = waiting.pop()
        try:
            installed = importlib.metadata.distribution(name).metadata["Name"]
        except importlib.metadata.PackageNotFoundError:
            continue  # For another platform or another Python.
        if installed not in found and installed != _DISTRIBUTION:
            found[installed] = None
            waiting += requirements(installed, ())
    return sorted(found)


def requirements(distribution: str, extras: Collection[str]) -> Iterator[str]:
    """Yield the names of a package's requirements with these extras, for any platform.

    Reads Flotilla's own from the checkout, since the installed metadata may be older.
    """
    if distribution == _DISTRIBUTION:
        project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())["project"]
        more = (each for extra in extras for each in project["optional-dependencies"][extra])
        yield from (name[0] for each in (*project["dependencies"], *more) if (name := _NAME.match(each)))
        return
    for requirement in importlib.metadata.requires(distribution) or ():
        extra = _EXTRA.search(requirement)
        name = _NAME.match(requirement)
        if name and (extra is None or extra[1] in extras):
            yield name[0]


def _write_packages(place: _Place) -> None:
    place.packages.mkdir()
    for name in distributions():
        distribution = importlib.metadata.distribution(name)
        for file in distribution.files or ():
            # Programs of packages are outside of site-packages; the image does not need them.
            if ".." not in file.parts and "__pycache__" not in file.parts:
                target = place.packages / file
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(str(distribution.locate_file(file)), target)


def _compile(root: Path, *folders: Path) -> None:
    """Compile all modules like the Dockerfile does: otherwise every process would spend seconds on it at its start.

    Files in an image have no modification times, so Python cannot check whether compiled files are current.
    """
    names = ("-s", str(root), "-p", "/", "-x", "kubernetes_asyncio/client/(api|models)/")
    command = (sys.executable, "-m", "compileall", "-q", "--invalidation-mode", "unchecked-hash", *names)
    here = {name: value for name, value in os.environ.items() if name != "PYTHONPYCACHEPREFIX"}
    subprocess.run([*command, *map(str, folders)], check=True, env=here, capture_output=True)


def _write_programs(place: _Place) -> None:
    interpreter = f"python{_VERSION}"
    shutil.copy2(Path(sys.executable).resolve(), place.programs / interpreter)
    for name in ("python3", "python"):
        (place.programs / name).symlink_to(interpreter)
    command = place.programs / "flotilla"
    command.write_text(f"#!/usr/local/bin/{interpreter}\nfrom agent.cli import main\n\nmain()\n")
    command.chmod(0o755)


def _write_libraries(place: _Place) -> None:
    binaries = [place.programs / f"python{_VERSION}", *place.python.rglob("*.so*")]
    # Some libraries are part of a Python package already.
    needed = {path for path in _shared(binaries) if "site-packages" not in path}
    if not any(Path(path).name.startswith("ld-") for path in needed):
        raise SandboxError(f"ldd finds no shared libraries of {sys.executable} (on {platform.machine()})")
    _copy_libraries(place, needed)


def _copy_libraries(place: _Place, libraries: Iterable[str]) -> None:
    for library in libraries:
        if Path(library).name.startswith("ld-"):
            # Programs refer to the loader by its absolute path.
            target = place.root / library.lstrip("/")
            target.parent.mkdir(parents=True, exist_ok=True)
        else:
            target = place.libraries / Path(library).name
        shutil.copy2(Path(library).resolve(), target)


def _shared(binaries: Iterable[Path]) -> set[str]:
    """Return the shared libraries of programs, including the loader; none for static ones."""
    listed = subprocess.run(["ldd", *map(str, binaries)], capture_output=True, text=True, check=False).stdout
    return set(_LIBRARY.findall(listed))
