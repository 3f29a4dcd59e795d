"""Namespaces: election labels and targets, elected pods that were not made proxy pods, and obstacles. Pure."""

from collections.abc import Iterator

from agent.api import names
from agent.cli.checks.finding import Finding, fail, ok, warn
from agent.cli.checks.view import Raw, View
from agent.model.abridged import abridged
from agent.model.namespaces import command, elects_by_default
from agent.model.namespaces import is_enabled as enabled_by

_SHOWN = 3
_SYSTEM = "kube-system"


def is_enabled(namespace: Raw) -> bool:
    """Return True if pods of the namespace may be elected."""
    return enabled_by(namespace["metadata"].get("labels"))


def namespaces(view: View) -> Iterator[Finding]:
    """Check that labelled namespaces have targets, and that namespaces that elect by default are labelled."""
    if view.namespaces is None or not view.targets:
        return
    serving = {target.namespace for target in view.targets}
    enabled = [each["metadata"]["name"] for each in view.namespaces if is_enabled(each)]
    if not enabled:
        yield warn("namespaces", "none is labelled, so that no pod is elected", command("NAME"))
    well = bool(enabled)
    for name in enabled:
        if "" not in serving and name not in serving:
            well = False
            yield warn(
                f"namespace {name}",
                "its pods may be elected, but no target serves it",
                f"create a Target in it (`flotilla join` does), or take its label {names.LABEL_ENABLED} away",
            )
    for namespace in view.namespaces:
        metadata = namespace["metadata"]
        if not elects_by_default(metadata.get("annotations")):
            continue
        labels = metadata.get("labels") or {}
        if not is_enabled(namespace):
            well = False
            yield warn(
                f"namespace {metadata['name']}",
                "it elects by default, but is not labelled, so that no pod of it is elected",
                command(metadata["name"]),
            )
        elif labels.get(names.LABEL_ELECT_BY_DEFAULT) != "true":
            well = False
            yield warn(
                f"namespace {metadata['name']}",
                "it elects by default, but the agent has not labelled it so",
                "see that the agent of this cluster runs",
            )
    if well:
        yield ok("namespaces", f"{len(enabled)} {'is' if len(enabled) == 1 else 'are'} labelled, and served by targets")


def system(view: View) -> Iterator[Finding]:
    """Check that kube-system does not elect by default: the webhook itself may need the pods in it."""
    for namespace in view.namespaces or ():
        metadata = namespace["metadata"]
        if metadata["name"] == _SYSTEM and (metadata.get("labels") or {}).get(names.LABEL_ELECT_BY_DEFAULT) == "true":
            yield warn(
                f"namespace {_SYSTEM}",
                "it elects by default: the cluster's own components run elsewhere, and none is created without the "
                "webhook, which may need them itself",
                f"kubectl annotate namespace {_SYSTEM} {names.LABEL_ELECT_BY_DEFAULT}-",
            )


def unproxied(view: View) -> Iterator[Finding]:
    """Check that every pod that requests election has been elected."""
    if view.unproxied is None:
        return
    enabled = {each["metadata"]["name"] for each in view.namespaces or () if is_enabled(each)}
    for each in view.unproxied:
        if each.later:
            yield warn(
                f"namespace {each.namespace}",
                f"pods were annotated after their creation, which elects none: {abridged(each.later, _SHOWN)}",
                "create them again with the annotation",
            )
        others = tuple(pod for pod in each.pods if pod not in each.later)
        if not others:
            continue
        which = abridged(others, _SHOWN)
        if each.namespace in enabled:
            why, remedy = "there was no webhook when they were created", "see that it runs, then create them again"
        else:
            why, remedy = "the namespace is not labelled", f"{command(each.namespace)}, then create them again"
        yield warn(f"namespace {each.namespace}", f"pods ask to be elected and run here, for {why}: {which}", remedy)
    if not view.unproxied:
        yield ok("pods", "all that ask to be elected are")


def obstacles(view: View) -> Iterator[Finding]:
    """Check that no foreign object prevents the creation of a copy."""
    for each in view.obstacles or ():
        yield warn(each.about, each.message, "rename or remove what is in the way")
    if view.obstacles == ():
        yield ok("copies", "nothing of others has been in the way lately")


def unscheduled(view: View) -> Iterator[Finding]:
    """Check that a scheduler handles candidates of other clusters' pods in this cluster."""
    for each in view.unscheduled or ():
        remedy = "install the chart here with candidateScheduler.enabled=true; or have the source use mode ranked"
        yield fail(each.about, "it is for a candidate scheduler, and there is none in this cluster", remedy)
