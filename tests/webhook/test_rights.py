"""Permissions of the webhook in its cluster: it works with exactly these, and optional ones may be missing."""

import asyncio
import contextlib
import dataclasses
import logging
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agent.api.kinds import (
    CLUSTER_ROLE_BINDINGS,
    CLUSTER_ROLES,
    MUTATING_WEBHOOKS,
    SECRETS,
    SERVICE_ACCOUNTS,
    TARGETS,
    VALIDATING_WEBHOOKS,
)
from agent.api.ownroles import ASK_FOR_USERS, REGISTER, SECRETS_OF_TARGETS, WEBHOOK, WEBHOOK_SECRET
from agent.api.roles import Grant, rules
from agent.kube.errors import NotFound
from agent.model.proxypod import is_proxy
from hack.lab.sandbox.manifests import empty_secret
from hack.lab.sandbox.objects import connect
from tests.controllers.target_links import kubeconfig
from tests.e2e.fleet import token_of
from tests.waiting import until
from tests.webhook.replica import Place, elected
from tests.webhook.reviews import review
from webhook.review import Outcome
from webhook.validator import Validator

pytestmark = pytest.mark.cluster

Raw = dict[str, Any]


ALL = [grant for grants in WEBHOOK.grants.values() for grant in grants]
WITHOUT_REGISTERING = [grant for grant in ALL if grant.feature not in (REGISTER, SECRETS_OF_TARGETS, ASK_FOR_USERS)]
"""Permissions that the chart grants by default."""
WITHOUT_VALIDATION = [grant for grant in ALL if grant.kind is not VALIDATING_WEBHOOKS]


def rules_of(grants: list[Grant]) -> list[Raw]:
    """Return the chart's rules without resource names, since every test has objects of its own."""
    return rules([dataclasses.replace(grant, names=()) for grant in grants])


@contextlib.asynccontextmanager
async def account_with(place: Place, rules: list[Raw], file: Path) -> AsyncIterator[str]:
    """Return the flag for a kubeconfig of an account with exactly these permissions."""
    name = place.namespace
    await place.client.create(SERVICE_ACCOUNTS, {"metadata": {"name": "hook"}}, name)
    await place.client.create(CLUSTER_ROLES, {"metadata": {"name": name}, "rules": rules})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subjects = [{"kind": "ServiceAccount", "name": "hook", "namespace": name}]
    binding = {"metadata": {"name": name}, "roleRef": reference, "subjects": subjects}
    await place.client.create(CLUSTER_ROLE_BINDINGS, binding)
    config = kubeconfig(place.cluster, user={"token": await token_of(place.client, "hook", name)})
    await asyncio.to_thread(file.write_text, config)
    try:
        yield f"--kubeconfig={file}"
    finally:
        await place.client.delete(CLUSTER_ROLE_BINDINGS, name)
        await place.client.delete(CLUSTER_ROLES, name)


@pytest.fixture(autouse=True)
async def _empty_secret(place: Place) -> None:
    """Create the Secret that the chart creates for the webhook, which may not create one."""
    await place.client.create(SECRETS, empty_secret(WEBHOOK_SECRET, place.namespace), place.namespace)


async def test_these_rights_are_enough(place: Place, tmp_path: Path) -> None:
    async with (
        account_with(place, rules_of(ALL), tmp_path / "config") as flag,
        place.replica(flag) as webhook,
    ):
        assert is_proxy(await place.create(elected(), dry_run=True))
        missing = {"kubeconfigSecret": {"name": "c2"}}
        target = {"apiVersion": TARGETS.api_version, "kind": "Target", "metadata": {"name": "c2"}, "spec": missing}

        async def warned() -> bool:
            return "does not exist" in "".join(await place.warnings(TARGETS, target))

        await until(warned, what="a warning about the Secret")
        assert webhook.certificate_loop.registration_problem() is None


async def test_without_the_right_to_read_secrets_a_target_is_allowed_and_nothing_is_logged(
    place: Place, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    spec = {"kubeconfigSecret": {"name": "c2"}}
    target = {
        "apiVersion": TARGETS.api_version,
        "kind": "Target",
        "metadata": {"name": "c2", "namespace": place.namespace},
        "spec": spec,
    }
    async with account_with(place, rules_of(WITHOUT_REGISTERING), tmp_path / "config"):
        client = connect(tmp_path / "config")
        async with client.session:
            request = review(target)["request"]
            assert (await Validator(client).answer(request)).outcome is Outcome.VALID
    assert "is not checked" not in caplog.text


async def test_without_rights_to_validate_pods_are_mutated_all_the_same(place: Place, tmp_path: Path) -> None:
    async with (
        account_with(place, rules_of(WITHOUT_VALIDATION), tmp_path / "config") as flag,
        place.replica(flag, ready=False) as webhook,
    ):
        await until(lambda: place.is_ready(webhook), what="replica ready")
        await until(place.mutates, what="API server calls the webhook")
        with pytest.raises(NotFound):
            await place.validation()
        # The CA stays registered although each check ends with the refusal.
        await place.client.delete(MUTATING_WEBHOOKS, place.namespace)
        await until(place.mutates, what="API server calls the webhook again")
