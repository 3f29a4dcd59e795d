"""The wheel and the image contain the product and no part of the lab."""

import re
import tomllib

from setuptools import find_packages

from hack.lab.sandbox.objects import REPOSITORY

PARTS = {"agent", "webhook"}


def test_the_wheel_contains_no_package_of_the_lab() -> None:
    project = tomllib.loads((REPOSITORY / "pyproject.toml").read_text())
    found = find_packages(str(REPOSITORY), include=project["tool"]["setuptools"]["packages"]["find"]["include"])
    assert {name.partition(".")[0] for name in found} == PARTS
    assert "agent.moves.mover" in found
    assert not [name for name in found if {"sandbox", "demo", "lab"} & set(name.split("."))]


def test_the_image_copies_no_file_of_the_lab() -> None:
    sources = re.findall(r"^COPY (?!--)(.+) \S+$", (REPOSITORY / "Dockerfile").read_text(), re.MULTILINE)
    copied = {source for each in sources for source in each.split()}
    assert copied == PARTS | {"pyproject.toml", "README.md", "LICENSE", "hack/image.txt", "hack/build.txt"}
    allowed = re.findall(r"^!(\S+)$", (REPOSITORY / ".dockerignore").read_text(), re.MULTILINE)
    assert set(allowed) == copied
