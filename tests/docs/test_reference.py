"""Tables of keys, conditions and events: they list everything in the code and nothing else."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agent.api import names
from agent.api.names import (
    ac3,
    delegates,
    endings,
    fencing,
    following,
    givingup,
    lifecycle,
    links,
    mcs,
    moves,
    nodes,
    ocm,
    p2code,
    works,
)
from agent.klusterlet import status as manifest_works
from agent.model import servicelinks
from agent.model.p2code import linked, progress, verdicts
from agent.model.p2code import status as applications
from tests.docs import source
from tests.docs.pages import DOCS, quoted, section, tables

ANNOTATIONS = DOCS / "reference/annotations.md"
CONDITIONS = DOCS / "reference/conditions.md"

NO_KEYS = {
    "GROUP", "VERSION", "PREFIX", "SHORT_PREFIX", "ENABLED_VALUE", "PROVIDER_VALUE", "SCHEDULER_PROXY",
    "SCHEDULER_CANDIDATE", "SUMMARY_NAME", "SERVICE_ACCOUNT_MOUNT", "KUBELET_SIGNER", "CLIENT_CA_NAMESPACE",
    "CLIENT_CA_CONFIGMAP", "LEASE_CONTROLLERS", "LEASE_CANDIDATES", "LEASE_SOURCES", "NODE_LEASE_NAMESPACE",
    "SLICE_MANAGER", "INJECTED_FOLLOW", "RESTART", "STAND_IN_DRIVER", "PRIORITY_CLASS_REQUIRED",
    "ENDPOINT_SLICES_DRIVER", "SKUPPER_DRIVER",
}  # fmt: skip
"""Constants of agent/api/names that are not keys of annotations, labels, finalizers or taints."""

_CONSTANT = re.compile(
    r"^(?:CONDITION|[A-Z_]*(?:READY|SECURE|RESPONSIVE|READABLE|REACHABLE|SERVING|ACCEPTS_PODS|PODS_CREATED))"
    r' = "([\w/]+)"$',
    re.MULTILINE,
)
_COMMAND = re.compile(r"^│ ([a-z]+) {2,}\S", re.MULTILINE)
_SET = re.compile(r'set_condition\(\s*[\w.()"]+,\s*"(\w+)"')
_PLACEMENT = re.compile(r'^(?:SATISFIED|MISCONFIGURED) = "(\w+)"$', re.MULTILINE)
_ASPECT = re.compile(r'^\s+\("(\w+)", now_is\.', re.MULTILINE)

OCM = {
    value
    for value in vars(ocm).values()
    if isinstance(value, str) and value.startswith(names.SHORT_PREFIX) and value != names.SHORT_PREFIX
}
"""Flotilla's own keys for objects of Open Cluster Management."""
OCM_BY_USERS = {ocm.EVALUATE, ocm.KEEP_DECIDED, ocm.WHEN_UNPLACED, ocm.MANAGED_CLUSTER, f"{p2code.FILTER}.FEATURE"}

WRITTEN_BY_MOVES = {*moves.MARKS, *names.STATE_OF_REPLACEMENT}

APPLIED = {p2code.LABEL_PSM_UID, p2code.ANNOTATION_APPLIED, p2code.ANNOTATION_APPLIED_KINDS}
"""Keys on objects that are applied for an application, and on the application."""

MOVES = {moves.TARGETS, moves.ALLOWED_TARGETS, moves.MOVE}
OF_TARGETS = {lifecycle.RETIRE, lifecycle.LOST, lifecycle.FAILOVER_AFTER, lifecycle.FAILOVER_NOW, lifecycle.FAIL_BACK}
OF_TARGETS |= {fencing.FENCE}
"""Annotations of users about lost, retiring and returning targets."""
OF_TARGETS_BY_US = {
    value for value in vars(lifecycle).values() if isinstance(value, str) and value.startswith(names.SHORT_PREFIX)
} - {names.SHORT_PREFIX}
OF_FENCES = {
    value for value in vars(fencing).values() if isinstance(value, str) and value.startswith(names.SHORT_PREFIX)
} - {names.SHORT_PREFIX}
CONDITIONS_OF_TARGETS = {
    lifecycle.TARGET_LOST,
    lifecycle.FAILOVER_HELD,
    lifecycle.STABLE,
    lifecycle.RETIRED,
    lifecycle.OVER_LIMIT,
    links.GATEWAY_USABLE,
    links.SERVICES_SHARED,
}
CONDITIONS_OF_APPLICATIONS = {*verdicts.STATES, applications.ORPHANED, applications.OVERRIDDEN, applications.LEFT}
CONDITIONS_OF_APPLICATIONS |= {linked.READY, progress.READY, progress.CANNOT_MOVE}
CONDITIONS_OF_LINKS = {servicelinks.ACCEPTED, servicelinks.PROGRAMMED, servicelinks.CONNECTED}

OF_WORKS = {works.WORK_FINALIZER, works.APPLIED_FINALIZER, works.CONFIG_HASH, works.HUB_VERSION, works.HUB_RESTORED}
OF_WORKS |= {works.EXECUTOR}
CONDITIONS_OF_WORKS = {manifest_works.APPLIED, manifest_works.AVAILABLE, manifest_works.SYNCED}
CONDITIONS_OF_WORKS |= {manifest_works.PROGRESSING, manifest_works.DEGRADED}
CONDITIONS_OF_WORKS |= {manifest_works.DELETING, manifest_works.CONTESTED}

OF_NETWORKS = {ac3.FINALIZER, ac3.ANNOTATION_NETWORK, ac3.LABEL_NETWORK_UID, ac3.ANNOTATION_SHARED_FOR}

OF_KUBERNETES = {names.LABEL_SERVICE_NAME, names.LABEL_SLICE_MANAGED_BY}

CONSTANTS = {
    name: value
    for name, value in vars(names).items()
    if name.isupper() and not name.startswith("_") and isinstance(value, str) and name not in NO_KEYS
}
KEYS = {value for value in CONSTANTS.values() if "/" in value} | {names.LABEL_ENABLED}
SUFFIXES = set(CONSTANTS.values()) - KEYS


def first_cells(page: Path, heading: str) -> set[str]:
    """Return the texts in backticks in the first column of a section's tables."""
    return {text for table in tables(section(page, heading)) for row in table[1:] for text in quoted(row[0])}


def test_every_key_that_users_write_is_documented_and_no_other() -> None:
    suffixes = (
        SUFFIXES
        | {ocm.PLACEMENT, ocm.PLACEMENT_GROUP}
        | MOVES
        | OF_TARGETS
        | {links.AFFINITY, links.ADMIT_GATEWAY, links.SERVICE_REROUTE}
        | {works.ADOPT, works.ALTERNATIVES}
    )
    suffixes |= {nodes.RESOURCE_CLAIMS, p2code.APPLY_AS, p2code.DISTRIBUTION, p2code.DEPENDS_ON, p2code.IGNORE_LINKS}
    assert first_cells(ANNOTATIONS, "What users write") == suffixes | {names.LABEL_ENABLED} | OCM_BY_USERS


def test_every_key_that_we_write_is_documented_and_no_other() -> None:
    text = section(ANNOTATIONS, "What we write")
    *keys, named = tables(text)
    shown = {found for table in keys for row in table[1:] for found in quoted(row[0])}
    formed = {names.PREFIX + "NAMESPACE-NAME", names.sign("UID"), names.sign("UID", "ACCOUNT-UID")}
    # Users write the name of a ManagedCluster on Targets; the agent writes it on virtual nodes.
    of_ocm = OCM - OCM_BY_USERS | {ocm.MANAGED_CLUSTER}
    of_moves = WRITTEN_BY_MOVES | OF_TARGETS_BY_US | OF_FENCES
    of_moves |= {givingup.ANNOTATION_GIVE_UP, givingup.ANNOTATION_AGENT_ANSWERS, following.ANNOTATION_OBSERVED}
    of_nodes = {nodes.ANNOTATION_DECLARED_FEATURES}
    of_links = {links.ANNOTATION_NETWORKS, links.ANNOTATION_POD_IPS, links.LABEL_LINK_OF, links.LABEL_SKUPPER}
    of_links |= {links.LABEL_LINKERD, links.LABEL_FEDERATED}
    of_links |= {links.ANNOTATION_LINKED_SERVICE, links.ANNOTATION_LINKED_IN}
    of_links |= {links.ANNOTATION_GATEWAY, links.ANNOTATION_TRUSTED_CA, links.LABEL_GATEWAY_PEER}
    of_links |= {links.LABEL_HEADLESS_OF, links.LABEL_GATEWAY_HOST}
    of_links |= OF_NETWORKS | {mcs.LABEL_DERIVED, mcs.ANNOTATION_EXPORTED_IN}
    of_delegates = {delegates.ANNOTATION_NEW_LABELS, delegates.ANNOTATION_LABELS_FILE}
    of_delegates |= {delegates.ANNOTATION_ANNOTATIONS_FILE, delegates.ANNOTATION_RESTARTS}
    of_links |= of_delegates | of_nodes | {endings.ANNOTATION_GRACE_PERIOD}
    by_us = KEYS | of_ocm | of_moves | of_links | APPLIED | OF_WORKS
    assert shown - formed == by_us - {names.LABEL_ENABLED} - OF_KUBERNETES
    assert all(f"`{key}`" in text for key in OF_KUBERNETES)
    assert {found for row in named[1:] for found in quoted(row[0])} == {
        names.SCHEDULER_PROXY,
        names.SCHEDULER_CANDIDATE,
        names.LEASE_CONTROLLERS,
        names.LEASE_CANDIDATES,
        names.LEASE_SOURCES,
        names.SUMMARY_NAME,
        "system:node:admiralty",
    }


@pytest.mark.parametrize(
    ("key", "values"),
    [
        (names.SCHEDULING, names.SCHEDULING_MODES),
        (names.POD_GROUP_POLICY, names.POD_GROUP_POLICIES),
        (names.POD_GROUP_ON_FAILURE, names.POD_GROUP_ON_FAILURES),
        (names.PRIORITY_CLASS, names.PRIORITY_CLASS_CHOICES),
        (names.NETWORK_DRIVER, names.DRIVER_CHOICES),
        (links.AFFINITY, links.AFFINITIES),
        (names.UNINSTALL_POLICY, ("refuse", "delete", "orphan")),
        (names.LABEL_ENABLED, (names.ENABLED_VALUE,)),
        (moves.MOVE, moves.MOVE_CHOICES),
        (fencing.FENCE, fencing.FENCES),
        (lifecycle.FAIL_BACK, lifecycle.FAIL_BACKS),
        (ocm.WHEN_UNPLACED, ocm.WHEN_UNPLACED_CHOICES),
    ],
)
def test_the_values_of_a_key_are_those_that_the_code_takes(key: str, values: tuple[str, ...]) -> None:
    rows = [
        row for table in tables(section(ANNOTATIONS, "What users write")) for row in table if quoted(row[0]) == [key]
    ]
    assert [quoted(row[2]) for row in rows] == [list(values)]


def test_every_condition_is_documented_and_no_other() -> None:
    text = "\n".join(path.read_text() for path in source.modules())
    written = {found for each in (_CONSTANT, _SET, _ASPECT, _PLACEMENT) for found in each.findall(text)}
    # "Serving" is a reason; "Approved" is a condition of certificate requests.
    assert first_cells(CONDITIONS, "Conditions") == (
        written
        | CONDITIONS_OF_TARGETS
        | CONDITIONS_OF_LINKS
        | CONDITIONS_OF_APPLICATIONS
        | CONDITIONS_OF_WORKS
        | {"Ready", "PodScheduled"}
    ) - {
        "Serving",
        "Approved",
    }


def test_every_event_is_documented_and_no_other() -> None:
    assert first_cells(CONDITIONS, "Events") == source.events()


def test_every_reason_for_which_a_target_is_refused_has_a_remedy() -> None:
    waiting = tables(section(DOCS / "guides/troubleshooting.md", "A pod stays Pending"))
    (table,) = (each for each in waiting if each[0][0] == "reason")
    assert {row[0] for row in table[1:]} == source.rejections() | {"none"}


def test_every_verb_of_the_command_is_documented_and_no_other() -> None:
    (table,) = tables((DOCS / "reference/cli.md").read_text())
    verbs = {quoted(row[0])[0].split()[1] for row in table[1:]}
    done = subprocess.run([sys.executable, "-m", "agent.cli", "--help"], capture_output=True, text=True, check=True)
    assert verbs == set(_COMMAND.findall(done.stdout))
