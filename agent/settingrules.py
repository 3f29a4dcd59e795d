"""What settings have to be, and what to do about those that are not."""

import ipaddress
import math
from dataclasses import fields
from typing import TYPE_CHECKING

from agent.api import labels, names
from agent.model import sourceapi
from agent.model.summary import DETAILS
from agent.scheduling.extrascore import ExtraScore, InvalidExtraScore
from agent.scheduling.scores import STRATEGIES

if TYPE_CHECKING:
    from agent.settings import Settings

_LEAST_TOKEN_SECONDS = 600.0
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


class InvalidSetting(ValueError):
    """A setting that cannot be used; the message names it and the remedy."""


def check(settings: "Settings") -> None:
    """Raises InvalidSetting."""
    if not labels.is_value(settings.cluster_name):
        raise InvalidSetting(
            f"--cluster-name: {settings.cluster_name!r} cannot be written as a label value: at most 63 letters, digits,"
            " dashes, dots and underscores, the first and the last a letter or a digit"
        )
    if settings.log_level.upper() not in _LEVELS:
        raise InvalidSetting(f"--log-level: {settings.log_level!r} is none of {', '.join(_LEVELS)}")
    if settings.scheduling not in names.SCHEDULING_MODES:
        raise InvalidSetting(f"--scheduling: {settings.scheduling!r} is none of {', '.join(names.SCHEDULING_MODES)}")
    if settings.summary_detail not in DETAILS:
        raise InvalidSetting(f"--summary-detail: {settings.summary_detail!r} is none of {', '.join(DETAILS)}")
    for pair in settings.cluster_property:
        key, _, value = pair.partition("=")
        if "=" not in pair or not labels.is_key(key) or not labels.is_value(value):
            raise InvalidSetting(f"--cluster-property: {pair!r} is not KEY=VALUE with a valid key and value of a label")
    for key in settings.home_annotation:
        if not labels.is_key(key):
            raise InvalidSetting(f"--home-annotation: {key!r} is neither a key of an annotation nor a domain")
    if not 0 < settings.token_renewal < 1:
        raise InvalidSetting("--token-renewal: must be between 0 and 1")
    _check_scores(settings)
    if not settings.lease_retry < settings.lease_renew < settings.lease_duration:
        raise InvalidSetting("--lease-retry must be shorter than --lease-renew, and that shorter than --lease-duration")
    for setting in fields(settings):
        value = getattr(settings, setting.name)
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            continue
        flag = f"--{setting.name.replace('_', '-')}"
        if setting.name.startswith("score_"):
            if not 0 <= value < math.inf:
                raise InvalidSetting(f"{flag}: must be 0 or greater")
        elif not 0 < value < math.inf:
            raise InvalidSetting(f"{flag}: must be greater than 0")
    for flag, address in (("health", settings.health_address), ("metrics", settings.metrics_address or ":0")):
        if not address.rpartition(":")[2].isdecimal():
            raise InvalidSetting(f"--{flag}-address: {address!r} is not HOST:PORT")
    if settings.source_api and sourceapi.split(settings.source_api) is None:
        raise InvalidSetting(f"--source-api: {settings.source_api!r} is not HOST:PORT")
    if settings.source_api_token < _LEAST_TOKEN_SECONDS:
        raise InvalidSetting(f"--source-api-token: API servers give no token for less than {_LEAST_TOKEN_SECONDS:g} s")
    if settings.extender_address:
        _check_extender(settings)


def _check_extender(settings: "Settings") -> None:
    """Whoever reaches the extender can have candidates bound: it is on loopback, or knows its clients."""
    host, _, port = settings.extender_address.rpartition(":")
    if not (port.isdecimal() and 0 < int(port) < 65536):
        raise InvalidSetting(f"--extender-address: {settings.extender_address!r} is not HOST:PORT")
    files = (settings.extender_cert, settings.extender_key, settings.extender_client_ca)
    if any(files) and not all(files):
        raise InvalidSetting(
            "--extender-cert, --extender-key and --extender-client-ca belong together: give all three or none"
        )
    if not any(files) and not _is_loopback(host.strip("[]")):
        raise InvalidSetting(
            f"--extender-address: {settings.extender_address!r} is not a loopback address, and plain HTTP is served on"
            " those only: use 127.0.0.1, or give --extender-cert, --extender-key and --extender-client-ca"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_scores(settings: "Settings") -> None:
    if settings.placement_strategy not in STRATEGIES:
        raise InvalidSetting(
            f"--placement-strategy: {settings.placement_strategy!r} is none of {', '.join(STRATEGIES)}"
        )
    try:
        named = [ExtraScore.parse(text).name for text in settings.extra_score]
    except InvalidExtraScore as error:
        raise InvalidSetting(f"--extra-score: {error}") from error
    twice = next((name for name in named if named.count(name) > 1), None)
    if twice is not None:
        raise InvalidSetting(f"--extra-score: {twice} is given twice: keep one of them")
