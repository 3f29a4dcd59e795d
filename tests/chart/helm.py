"""Helm for tests."""

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
"""The C loader returns the same objects in a tenth of the time; loading is half the time of rendering the
chart."""
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
    """Helm ended with an error; the message is its output."""


@functools.cache
def program() -> str:
    """Path of helm."""
    return asyncio.run(binaries.helm(Silent()))


def run(*arguments: str, kubeconfig: Path | None = None) -> str:
    """Run helm and return its output. Raises Failed with helm's error output."""
    # HOME is a missing directory, so that no test depends on the user's configuration of helm.
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
    """Render the chart, hooks included, with `--set` pairs. The result is cached: do not change it."""
    flags = [flag for setting in settings for flag in ("--set", setting)]
    text = run("template", "flotilla", str(CHART), "-n", NAMESPACE, "--kube-version", kubernetes, *flags)
    return [obj for obj in yaml.load_all(text, _LOADER) if obj]


def of(objects: list[Raw], kind: str, name: str = "") -> Raw:
    """Return the only object of a kind, and of a name if given."""
    (found,) = (obj for obj in objects if obj["kind"] == kind and name in ("", obj["metadata"]["name"]))
    return found


def pods(objects: list[Raw]) -> Iterator[tuple[str, Raw]]:
    """Yield every pod and pod template with its object's name."""
    for obj in objects:
        if obj["kind"] in ("Deployment", "Job"):
            yield obj["metadata"]["name"], obj["spec"]["template"]
        elif obj["kind"] == "Pod":
            yield obj["metadata"]["name"], obj


def is_namespaced(obj: Raw) -> bool:
    """Return True if objects of this kind have a namespace."""
    return obj["kind"] not in _CLUSTER_SCOPED
