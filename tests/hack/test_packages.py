"""Pins, notices and SBOM of Python packages: what hack/packages writes is what is installed and asked for."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from agent.sandbox import ownimage
from agent.sandbox.objects import REPOSITORY
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


def test_the_image_is_made_of_the_pinned_versions() -> None:
    text = (REPOSITORY / "Dockerfile").read_text()
    assert " hack/constraints.txt ./\n" in text
    assert "ENV PIP_CONSTRAINT=/src/constraints.txt PIP_BUILD_CONSTRAINT=/src/constraints.txt\n" in text
    assert text.index("ENV PIP_CONSTRAINT") < text.index("pip --python")
    assert "\n!hack/constraints.txt\n" in (REPOSITORY / ".dockerignore").read_text()


def test_the_documented_command_pins_the_base_image(tmp_path: Path) -> None:
    (commands,) = (block.text for block in blocks(DOCS / "installation.md", "sh") if block.mark == "image")
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


def test_every_package_of_the_image_brings_its_licence() -> None:
    rows = re.findall(r"^\| ([^|]+) \| [^|]+ \| ([^|]+) \| ([^|]+) \|$", notices().read_text(), re.MULTILINE)[2:]
    assert [name for name, *_ in rows] == sorted(ownimage.distributions(), key=str.lower)
    for name, licence, texts in rows:
        assert licence.strip(), name
        assert "`" in texts, name


def notices() -> Path:
    return REPOSITORY / "docs/third-party.md"


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
