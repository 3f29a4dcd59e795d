"""Pins, notices and SBOM of Python packages: the output of hack/packages matches installed and required
packages."""

import json
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from hack.lab.sandbox import ownimage
from hack.lab.sandbox.objects import REPOSITORY
from tests.docs.pages import DOCS, blocks

PROJECT = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
PINNED = {
    canonicalize_name(name): Version(version)
    for name, version in (
        line.split("==")
        for line in (REPOSITORY / "hack/constraints.txt").read_text().splitlines()
        if not line.startswith("#")
    )
}
ASKED = [
    *PROJECT["build-system"]["requires"],
    *PROJECT["project"]["dependencies"],
    *(each for extra in PROJECT["project"]["optional-dependencies"].values() for each in extra),
]


def packages(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "hack/packages", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def sbom(tmp_path_factory: pytest.TempPathFactory) -> Any:
    file = tmp_path_factory.mktemp("sbom") / "sbom.json"
    assert packages("--sbom", str(file)).returncode == 0
    return json.loads(file.read_text())


def test_pins_and_notices_are_those_of_what_is_installed() -> None:
    done = packages("--check")
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("text", [each for each in ASKED if not each.startswith("flotilla")])
def test_whatever_is_asked_for_is_pinned_to_a_version_that_will_do(text: str) -> None:
    asked = Requirement(text)
    assert PINNED[canonicalize_name(asked.name)] in asked.specifier


def hashed(name: str) -> dict[str, list[str]]:
    """Return the hashes of each requirement in a file."""
    text = (REPOSITORY / "hack" / name).read_text().replace(" \\\n", " ")
    lines = [line.split() for line in text.splitlines() if not line.startswith("#")]
    return {asked: [each.removeprefix("--hash=sha256:") for each in given] for asked, *given in lines}


def test_the_image_is_made_of_files_with_these_hashes_only() -> None:
    text = (REPOSITORY / "Dockerfile").read_text()
    for command in re.findall(r"pip (?:--python \S+ )?(?:install|wheel) .*", text):
        assert "--require-hashes --only-binary :all: " in command or "--no-index --no-deps " in command
    assert "COPY hack/image.txt hack/build.txt ./\n" in text
    kept = (REPOSITORY / ".dockerignore").read_text()
    assert "\n!hack/image.txt\n!hack/build.txt\n" in kept
    made = {asked.split("==")[0] for asked in hashed("image.txt")}
    assert made == set(ownimage.distributions())
    assert {asked.split("==")[0] for asked in hashed("build.txt")} == {"setuptools"}
    for asked, given in (hashed("image.txt") | hashed("build.txt")).items():
        name, _, version = asked.partition("==")
        assert Version(version) == PINNED[canonicalize_name(name)]
        assert given, asked
        assert all(re.fullmatch("[0-9a-f]{64}", each) for each in given)


@pytest.mark.parametrize("name", ["aiohttp", "yarl"])
def test_hashes_of_other_versions_than_the_pins_are_reported_without_an_index(name: str, tmp_path: Path) -> None:
    for kept in ("hack", "docs", "pyproject.toml", "Dockerfile", "agent"):
        (tmp_path / kept).symlink_to(REPOSITORY / kept)
    (tmp_path / "hack").unlink()
    (tmp_path / "hack").mkdir()
    (tmp_path / "hack/lab").symlink_to(REPOSITORY / "hack/lab")
    for file in ("packages", "constraints.txt", "image.txt", "build.txt"):
        (tmp_path / "hack" / file).write_text((REPOSITORY / "hack" / file).read_text())
    image = tmp_path / "hack/image.txt"
    command = [sys.executable, str(tmp_path / "hack/packages"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")
    image.write_text(re.sub(rf"^{name}==\S+", f"{name}==0.1", image.read_text(), flags=re.MULTILINE))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "hack/image.txt: out of date, run hack/packages --hashes\n")


@pytest.mark.full("Installs packages with pip, which only a release depends on.")
def test_pip_installs_the_files_that_are_known_and_no_other(tmp_path: Path) -> None:
    """Install without an index from the wheels that hack/setup keeps for this machine."""
    kept = Path(os.environ.get("FLOTILLA_CACHE", Path.home() / ".cache/flotilla")) / "packages"
    wheels = {path.name.partition("-")[0].lower(): path for path in kept.glob("*/*.whl")}
    if sys.version_info[:2] != (3, 11) or "idna" not in wheels or "six" not in wheels:
        pytest.skip("hack/setup has kept no wheels for the Python of the image")
    everything = hashed("image.txt")
    few = {asked: given for asked, given in everything.items() if asked.partition("==")[0] in ("idna", "six")}
    lines = [f"{asked} {' '.join(f'--hash=sha256:{each}' for each in given)}\n" for asked, given in few.items()]
    (tmp_path / "some.txt").write_text("".join(lines))
    for name in ("idna", "six"):
        (tmp_path / wheels[name].name).write_bytes(wheels[name].read_bytes())
    options = ["--dry-run", "--ignore-installed", "--no-index", "--no-cache-dir", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *options, "--require-hashes", "--find-links", str(tmp_path)]

    def install() -> subprocess.CompletedProcess[str]:
        asked = [*command, "-r", str(tmp_path / "some.txt")]
        return subprocess.run(asked, capture_output=True, text=True, check=False)

    assert install().returncode == 0
    with zipfile.ZipFile(tmp_path / wheels["six"].name, "a") as wheel:
        wheel.writestr("evil.py", "")
    done = install()
    assert done.returncode != 0
    assert "DO NOT MATCH THE HASHES" in done.stderr


def test_the_documented_command_pins_the_base_image(tmp_path: Path) -> None:
    (commands,) = (block.text for block in blocks(DOCS / "start/installation.md", "sh") if block.mark == "image")
    digest, build, packages_command = commands.splitlines()
    docker = tmp_path / "docker"
    docker.write_text(
        "#!/bin/sh\nprintf 'Name:      x\\nMediaType: y\\nDigest:    sha256:12ab\\nManifests:\\n  Digest: no\\n'\n"
    )
    docker.chmod(0o755)
    shell = ["bash", "-c", f'{digest}; echo "$PYTHON_DIGEST"']
    done = subprocess.run(shell, env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True)
    assert done.stdout == "sha256:12ab\n"
    assert "--build-arg PYTHON_DIGEST=$PYTHON_DIGEST" in build
    assert packages_command.startswith("hack/packages --sbom ")
    asked = digest.split("inspect ")[1].split()[0]
    text = (REPOSITORY / "Dockerfile").read_text()
    assert re.findall(r"^FROM (\S+)", text, re.MULTILINE) == [f"{asked}${{PYTHON_DIGEST:+@$PYTHON_DIGEST}}"] * 2
    assert text.index("\nARG PYTHON_DIGEST=\n") < text.index("\nFROM ")


def test_the_steps_of_a_release_name_options_and_files_that_there_are() -> None:
    commands = "".join(block.text for block in blocks(DOCS / "contribute/releases.md", "sh") if block.mark == "release")
    lines = [line.split() for line in commands.splitlines()]
    known = packages("--help").stdout
    for words in lines:
        if words[0] == "hack/packages":
            assert all(word in known for word in words[1:] if word.startswith("--"))
    named = {word for words in lines for word in words if word.startswith("hack/")}
    assert {"hack/packages", "hack/check", "hack/image.txt", "hack/build.txt"} == named
    assert all((REPOSITORY / each).exists() for each in named)


def test_every_package_of_the_image_brings_its_licence() -> None:
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", notices().read_text(), re.MULTILINE)[2:]
    assert [name for name, *_ in rows] == sorted(ownimage.distributions(), key=str.lower)
    for name, licence, texts in rows:
        assert licence.strip(), name
        assert "`" in texts, name


def notices() -> Path:
    return REPOSITORY / "docs/reference/third-party.md"


def test_the_sbom_has_the_packages_of_the_image_and_how_they_depend_on_each_other(sbom: Any) -> None:
    assert (sbom["bomFormat"], sbom["specVersion"]) == ("CycloneDX", "1.6")
    assert sbom["metadata"]["component"]["version"] == PROJECT["project"]["version"]
    found = {each["name"]: each for each in sbom["components"]}
    assert sorted(found) == ownimage.distributions()
    for name, each in found.items():
        assert each["purl"] == f"pkg:pypi/{canonicalize_name(name)}@{PINNED[canonicalize_name(name)]}"
        (licence,) = each["licenses"]
        assert licence.get("expression") or licence["license"]["name"]
    edges = {each["ref"]: each["dependsOn"] for each in sbom["dependencies"]}
    assert edges.keys() == {"flotilla", *(each["purl"] for each in found.values())}
    reached, waiting = set[str](), ["flotilla"]
    while waiting:
        ref = waiting.pop()
        if ref not in reached:
            reached.add(ref)
            waiting += edges[ref]
    assert reached == edges.keys()
