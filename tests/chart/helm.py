"""Helm as tests call it."""

import asyncio
import functools
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from agent.cli.progress import Silent
from hack.lab.sandbox import binaries
from hack.lab.sandbox.objects import REPOSITORY

Raw = dict[str, Any]

CHART = REPOSITORY / "charts" / "flotilla"
NAMESPACE = "flotilla-system"
_SECONDS = 400
_LOADER: Any = yaml.CSafeLoader if yaml.__with_libyaml__ else yaml.SafeLoader
"""The same objects at a tenth of the time: this is half of what rendering the chart takes."""
_CLUSTER_SCOPED = {
    "ClusterRole",
    "ClusterRoleBinding",
    "CustomResourceDefinition",
    "MutatingWebhookConfiguration",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionPolicyBinding",
    "ValidatingWebhookConfiguration",
}


class Failed(Exception):
    """Helm said no."""


@functools.cache
def program() -> str:
    """Path of helm."""
    return asyncio.run(binaries.helm(Silent()))


def run(*arguments: str, kubeconfig: Path | None = None) -> str:
    """What a command prints. Raises Failed with what it complains of."""
    # Home is not touched: no test may depend on what somebody has configured there.
    environment = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent", "KUBECONFIG": str(kubeconfig or "/nonexistent")}
    environment |= {name: os.environ[name] for name in ("GOGC", "GOMAXPROCS") if name in os.environ}
    done = subprocess.run(
        [program(), *arguments], capture_output=True, text=True, check=False, timeout=_SECONDS, env=environment
    )
    if done.returncode:
        raise Failed(done.stderr)
    return done.stdout


@functools.cache
def template(*settings: str, kubernetes: str = "1.36.3") -> list[Raw]:
    """Objects that the chart renders to with `--set` pairs, hooks included; do not change them."""
    flags = [flag for setting in settings for flag in ("--set", setting)]
    text = run("template", "flotilla", str(CHART), "-n", NAMESPACE, "--kube-version", kubernetes, *flags)
    return [obj for obj in yaml.load_all(text, _LOADER) if obj]


def of(objects: list[Raw], kind: str, name: str = "") -> Raw:
    """The only object of a kind (and name)."""
    (found,) = (obj for obj in objects if obj["kind"] == kind and name in ("", obj["metadata"]["name"]))
    return found


def pods(objects: list[Raw]) -> Iterator[tuple[str, Raw]]:
    """Every pod and pod template, with the name of what has it."""
    for obj in objects:
        if obj["kind"] in ("Deployment", "Job"):
            yield obj["metadata"]["name"], obj["spec"]["template"]
        elif obj["kind"] == "Pod":
            yield obj["metadata"]["name"], obj


def is_namespaced(obj: Raw) -> bool:
    """Whether objects of its kind are in namespaces."""
    return obj["kind"] not in _CLUSTER_SCOPED
