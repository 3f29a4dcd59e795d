"""Checks that elected pods become proxy pods: webhook configurations, Services behind them, and a trial. Pure."""

import base64
import binascii
from collections.abc import Iterator
from datetime import datetime, timedelta

from agent.api import names
from agent.api.names import GROUP
from agent.api.ownroles import CONFIGURATION
from agent.base import certificates
from agent.cli.checks.finding import Finding, fail, ok, warn
from agent.cli.checks.namespaces import is_enabled
from agent.cli.checks.view import Raw, Trial, View, WebhookView
from agent.cli.fleet.units import age

LAST_SHARE = 0.15
"""Fraction of a certificate's lifetime below which renewal has failed: it is due at a third."""
_NOT_REACHED = "see its pods, and NetworkPolicies, firewalls and certificates between API server and webhook"
_SEE_LOG = "see the log of the webhook: kubectl logs -A -l app.kubernetes.io/component=webhook"


def is_ours(configuration: Raw) -> bool:
    """Return True if a configuration has webhooks of Flotilla or Admiralty."""
    return any(each["name"].endswith(f".{GROUP}") for each in configuration.get("webhooks") or ())


def webhook(view: View) -> Iterator[Finding]:
    """Check that an elected pod becomes a proxy pod."""
    given = view.webhook
    if given.mutating is None:
        return
    if not given.mutating:
        yield fail(
            "webhook",
            f"there is no MutatingWebhookConfiguration {CONFIGURATION}: no pod is elected",
            "install the chart (helm upgrade --install), or run the webhook with --register",
        )
        return
    if len(given.mutating) > 1:
        those = ", ".join(each["metadata"]["name"] for each in given.mutating)
        yield fail(
            "webhook",
            f"several configurations elect pods: {those}",
            "the chart is installed twice, or beside Admiralty: uninstall all but one",
        )
    for configuration in given.mutating:
        yield from _configuration(configuration, view)
    if given.validating is not None and not given.validating:
        yield warn(
            "webhook",
            f"there is no ValidatingWebhookConfiguration {CONFIGURATION}: nobody refuses mistakes in Targets",
            "upgrade the chart",
        )
    yield from _certificate(given, view.now)
    yield from _refusal(given)
    yield from _trial(view)


def _configuration(configuration: Raw, view: View) -> Iterator[Finding]:
    name = f"webhook configuration {configuration['metadata']['name']}"
    well = True
    for entry in configuration["webhooks"]:
        where = entry.get("clientConfig") or {}
        if not where.get("caBundle"):
            well = False
            yield fail(
                name,
                f"{entry['name']} has no caBundle: API servers do not trust the webhook",
                f"its own CA is not written, or cert-manager's injector does not run; {_SEE_LOG}",
            )
        elif problem := _bundle_problem(where["caBundle"], view.now):
            well = False
            yield fail(name, f"the caBundle of {entry['name']} {problem}", _SEE_LOG)
        if not entry.get("matchConditions"):
            well = False
            yield warn(
                name,
                f"{entry['name']} has no matchConditions: pods that are not elected depend on the webhook, too",
                "upgrade the chart, and Kubernetes to 1.30 or later",
            )
    for finding in _endpoints(configuration, view.webhook):
        well = False
        yield finding
    if well:
        yield ok(name, "it is there, and its CA is valid")


def _endpoints(configuration: Raw, given: WebhookView) -> Iterator[Finding]:
    if given.ready is None:
        return
    services = {}
    for entry in configuration["webhooks"]:
        service = (entry.get("clientConfig") or {}).get("service")
        if service:
            services[f"{service['namespace']}/{service['name']}"] = service
    for service in services:
        count = given.ready.get(service)
        if count is None:
            yield fail("webhook", f"its Service {service} does not exist", "install the chart again (helm upgrade)")
        elif not count:
            yield fail(
                "webhook",
                f"no endpoint of its Service {service} is ready: no elected pod can be created",
                "see its pods: kubectl get pods -A -l app.kubernetes.io/component=webhook",
            )


def _bundle_problem(encoded: str, now: datetime) -> str:
    """Return why a CA bundle is invalid, empty if valid: one valid certificate suffices, as old CAs stay in it."""
    try:
        found = [certificates.validity(each) for each in certificates.split(base64.b64decode(encoded, validate=True))]
    except (ValueError, binascii.Error):
        return "is not a PEM certificate"
    if not found:
        return "is not a PEM certificate"
    if all(each.end < now for each in found):
        return f"has expired on {max(each.end for each in found):%Y-%m-%d}"
    if all(each.start > now for each in found):
        return "is not valid yet: a clock is wrong"
    return ""


def _certificate(given: WebhookView, now: datetime) -> Iterator[Finding]:
    if given.certificate is None:
        return
    try:
        found = certificates.validity(given.certificate)
    except ValueError:
        yield fail("webhook certificate", "it is not a PEM certificate", "delete its Secret: the webhook makes another")
        return
    left = found.end - now
    life = found.end - found.start
    if left <= timedelta(0):
        yield fail("webhook certificate", f"it expired {age(-left.total_seconds())} ago", _SEE_LOG)
    elif left < life * LAST_SHARE:
        yield warn(
            "webhook certificate",
            f"it expires in {age(left.total_seconds())} and should have been renewed",
            _SEE_LOG,
        )
    else:
        yield ok("webhook certificate", f"valid for another {age(left.total_seconds())}")


def _refusal(given: WebhookView) -> Iterator[Finding]:
    if given.refuses:
        yield ok("webhook", "it answers: a Target with a mistake is refused")
    elif given.refuses is False:
        yield fail("webhook", "the API server does not reach it: a Target with a mistake passed", _NOT_REACHED)


def _trial(view: View) -> Iterator[Finding]:
    given = view.webhook
    where = f"namespace {given.trial_namespace}"
    match given.trial:
        case Trial.PROXY:
            yield ok("webhook", f"it answers: an elected pod in {where} would become a proxy pod")
        case Trial.ORDINARY:
            yield _ordinary(where, view)
        case Trial.NO_WEBHOOK:
            yield fail(
                "webhook",
                f"the API server does not reach it: {given.trial_words}",
                _NOT_REACHED,
            )
        case Trial.REFUSED:
            yield warn(
                "webhook",
                f"whether it answers is not known: a pod in {where} was refused ({given.trial_words})",
                "try again as a user who may create pods there, or in another namespace (-n NAME)",
            )
        case Trial.UNTRIED:
            if view.namespaces is not None:
                yield ok("webhook", "no elected pod was tried: no namespace is labelled, as in a mere target")


def _ordinary(where: str, view: View) -> Finding:
    name = view.webhook.trial_namespace
    what = f"an elected pod in {where} would stay an ordinary pod"
    if view.namespaces is None or name in {each["metadata"]["name"] for each in view.namespaces if is_enabled(each)}:
        why = "its configuration does not match: install the chart again, and look for changed namespaceSelectors"
        return fail("webhook", what, why)
    # Reached only for a namespace that the user has named with -n.
    label = f"{names.LABEL_ENABLED}={names.ENABLED_VALUE}"
    return warn("webhook", f"{what}, since the namespace is not labelled", f"kubectl label namespace {name} {label}")
