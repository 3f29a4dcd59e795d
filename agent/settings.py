"""Every setting of the agent: a flag, an environment variable (FLOTILLA_ and the flag in capitals), a default."""

import argparse
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, cast
from uuid import uuid4

from agent.api import names
from agent.scheduling.extrascore import FORM, ExtraScore
from agent.scheduling.scores import Strategy, Weights
from agent.settingrules import InvalidSetting, check

__all__ = ["InvalidSetting", "Mode", "Settings", "parse", "variable"]

Mode = Literal["ranked", "reserve"]


def _setting(default: Any, text: str, form: str = "KEY=VALUE") -> Any:
    """:param form: of each value of a flag that can be repeated"""
    return field(default=default, metadata={"help": text, "form": form})


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Seconds unless said otherwise."""

    kubeconfig: str = _setting("", "kubeconfig of this cluster; empty: the pod's service account, then $KUBECONFIG")
    context: str = _setting("", "context of the kubeconfig; empty: its current one")
    cluster_name: str = _setting("", "name of this cluster, written on what it creates elsewhere (63 characters)")
    namespace: str = _setting("", "namespace of the leader lease; empty: the pod's own, else kube-system")
    identity: str = _setting("", "name of this replica in leader election; empty: host name and a random part")
    health_address: str = _setting("0.0.0.0:8080", "HOST:PORT of /healthz, /readyz and /metrics")
    metrics_address: str = _setting(
        "", "HOST:PORT of /metrics over HTTPS, for tokens that may get that path; empty: for all, beside /healthz"
    )
    node_address: str = _setting("", "IP address that virtual nodes announce; empty: $VKUBELET_POD_IP")
    kubelet_port: int = _setting(10250, "first port of the virtual nodes' kubelet API, of which each has its own")
    kubelet_signer: str = _setting(
        "", "signer of its serving certificate; empty: $VKUBELET_CSR_SIGNER_NAME, else kubelet's"
    )
    stream_idle: float = _setting(14400.0, "how long logs, exec and port-forward may be silent before they are ended")
    log_level: str = _setting("INFO", "DEBUG, INFO, WARNING or ERROR")
    log_json: bool = _setting(False, "write logs as JSON lines")
    lease_duration: float = _setting(12.0, "how long others wait for a leader that went silent")
    lease_renew: float = _setting(9.0, "how long the leader tries to renew its lease before it stops leading")
    lease_retry: float = _setting(2.0, "pause between renewals of the lease; who waits for it looks twice as often")
    probe_interval: float = _setting(5.0, "pause between probes of a target")
    probe_timeout: float = _setting(3.0, "how long a probe waits for its answer")
    probe_failures: int = _setting(2, "failed probes in a row that make a ready target unreachable")
    agent_interval: float = _setting(15.0, "pause between looks whether a target's own agent is alive")
    sign_interval: float = _setting(60.0, "pause between signs of life that this cluster leaves in its targets")
    slow_target: float = _setting(
        0.5, "a target whose answers take longer than this gets no pods that can go elsewhere, until it is prompt again"
    )
    unwell_after: float = _setting(
        60.0,
        "how long a watch may fail, or a task be started again and again, until its target is not ready, or, in this"
        " cluster, another replica leads",
    )
    node_lease_renew: float = _setting(9.0, "pause between renewals of a virtual node's lease")
    node_lease_duration: float = _setting(40.0, "validity of a virtual node's lease")
    pod_missing: float = _setting(60.0, "how long a delegate is missing before its chaperon makes it again")
    release_after: float = _setting(10.0, "how long a removed target that cannot be reached holds its proxy pods")
    token_renewal: float = _setting(0.8, "part of the life of a target's token (0 to 1) after which it is renewed")
    request_timeout: float = _setting(
        10.0, "how long a request to an API server may take; of a list, how long nothing of it may come"
    )
    follow_wait: float = _setting(5.0, "how long a pod waits at most for what it needs to be copied to its target")
    follow_linger: float = _setting(10.0, "how long a copy stays in a target after the last pod that needs it")
    orphaned_claim_delay: float = _setting(
        86400.0,
        "how long a volume claim stays in a target that this cluster no longer has and the agent has not seen going",
    )
    stand_in_volumes: bool = _setting(
        True,
        "claims whose volume is in a target are Bound here, too, by a volume that stands for it and that nothing can"
        " mount; off: they stay Pending",
    )
    source_api: str = _setting(
        "", "HOST:PORT at which pods in targets reach this cluster's API server; empty: their annotation has no effect"
    )
    source_api_any_account: bool = _setting(
        True, "tokens of all service accounts may go there; off: those that annotations of their namespaces name"
    )
    source_api_token: float = _setting(3600.0, "validity of the tokens that they get, renewed in time; 600 or more")
    share_linger: float = _setting(
        10.0, "how long a Service stays rerouted after the last proxy pod that it selects is gone"
    )
    endpoints_grace: float = _setting(
        40.0, "how long endpoints in a target that does not answer count as ready, as those of a silent node do"
    )
    home_annotation: tuple[str, ...] = _setting(
        (),
        "annotation of delegates, or domain of its key, that comes home, and no other (repeat the flag; commas in the"
        " variable); empty: all but those that others act upon",
        "KEY",
    )
    event_rate: float = _setting(
        10.0, "warnings about its delegates that a target may have told per second; ten times as many at once"
    )
    max_in_flight: int = _setting(64, "pods that are scheduled at the same time")
    scheduling: str = _setting(
        "ranked",
        "how pods are placed whose annotations and namespace do not say: ranked (one target at a time) or reserve"
        " (candidates in all of them, which need a candidate scheduler there)",
    )
    dwell: float = _setting(30.0, "how long a pod that no target can take stays where it is before it tries one again")
    take_up: float = _setting(
        60.0,
        "how long nobody in a target, neither its agent nor the pod's scheduler, may do anything about a pod that was"
        " sent there before it goes to another target that can take it; longer than a scheduler that is at work, and"
        " has many pods to place, leaves all of this cluster's alone",
    )
    reserve_patience: float = _setting(
        2.0, "mode reserve: how long the first reservation waits for those that would be better"
    )
    group_timeout: float = _setting(
        30.0, "how long the pods of a group collect reservations before they give them all back"
    )
    candidate_scheduler: bool = _setting(
        True,
        "a candidate scheduler runs in this cluster; off: candidates are told to their sources as unschedulable",
    )
    source_controller: bool = _setting(True, "reconcile Sources and ClusterSources into service accounts and bindings")
    source_role: str = _setting("multicluster-scheduler-source", "ClusterRole that Sources are bound to")
    summary_viewer_role: str = _setting(
        "multicluster-scheduler-cluster-summary-viewer", "ClusterRole that lets Sources read the ClusterSummary"
    )
    answer_daemon_sets: bool = _setting(
        True,
        "pods of DaemonSets on virtual nodes count as ready, though none of their containers runs, so that rollouts"
        " end; off: they stay pending",
    )
    summary_detail: str = _setting(
        "full",
        "what Sources are told of this cluster's nodes: full (sums, common labels, node shapes and what is free),"
        " minimal (as Admiralty: sums, common labels) or sums",
    )
    cluster_property: tuple[str, ...] = _setting(
        (),
        "KEY=VALUE, a label of virtual nodes that stand for this cluster (repeat the flag; commas in the variable)",
    )
    discovery_interval: float = _setting(300.0, "pause between looks which kinds of cluster properties are served")
    placement_strategy: str = _setting("least", "which target scores higher: the least allocated, or the most")
    score_affinity: float = _setting(Weights.affinity, "weight of preferred node affinity over virtual nodes; 0: none")
    score_taints: float = _setting(Weights.taints, "weight of PreferNoSchedule taints of virtual nodes")
    score_pod_affinity: float = _setting(Weights.pod_affinity, "weight of preferred affinity and anti-affinity to pods")
    score_spread: float = _setting(Weights.spread, "weight of topology spread with ScheduleAnyway")
    score_target_weight: float = _setting(
        Weights.target_weight, "weight of the annotation multicluster/weight of Targets"
    )
    score_capacity: float = _setting(Weights.capacity, "weight of how little (or much) of a target is allocated")
    score_images: float = _setting(Weights.images, "weight of images that pods of this cluster have brought there")
    extra_score: tuple[str, ...] = _setting(
        (),
        "score from -100 to 100 that an object gives the target after which its namespace is named, with its weight"
        " (repeat the flag; commas in the variable)",
        FORM,
    )
    extender_address: str = _setting(
        "", "HOST:PORT of the bind extender for the candidate scheduler (mode reserve); empty: none is served"
    )
    extender_cert: str = _setting("", "file of the extender's certificate; without one, it serves loopback only")
    extender_key: str = _setting("", "file of the certificate's key")
    extender_client_ca: str = _setting("", "file of the CA whose client certificates the extender accepts")
    hold: float = _setting(30.0, "how long a candidate that has been given a node waits for its source's leave")
    target_plugins: bool = _setting(
        False, "let kubeconfig Secrets of Targets run credential plugins (exec) with the agent's own rights"
    )

    @property
    def replica(self) -> str:
        """The name of this replica in leader election."""
        return self.identity or os.environ.get("POD_NAME") or f"{socket.gethostname()}-{uuid4().hex[:8]}"

    @property
    def mode(self) -> Mode:
        """How pods are placed that do not say."""
        return cast("Mode", self.scheduling)

    @property
    def weights(self) -> Weights:
        """How much each score of a target counts. Raises InvalidExtraScore."""
        return Weights(
            affinity=self.score_affinity,
            taints=self.score_taints,
            pod_affinity=self.score_pod_affinity,
            spread=self.score_spread,
            target_weight=self.score_target_weight,
            capacity=self.score_capacity,
            images=self.score_images,
            extra={score.name: score.weight for score in map(ExtraScore.parse, self.extra_score)},
            strategy=cast("Strategy", self.placement_strategy),
        )

    @property
    def announced_address(self) -> str:
        """What virtual nodes announce, empty when it is not known."""
        return self.node_address or os.environ.get("VKUBELET_POD_IP", "")

    @property
    def signer(self) -> str:
        """Who signs the serving certificate of virtual nodes."""
        return self.kubelet_signer or os.environ.get("VKUBELET_CSR_SIGNER_NAME") or names.KUBELET_SIGNER


def parse(
    arguments: Sequence[str],
    program: str = "python -m agent",
    purpose: str = "Flotilla's agent: runs pods of one cluster in others, and others' pods here.",
) -> Settings:
    """Settings from flags, then environment variables, then defaults.

    Exits with usage when a flag is unknown. Raises InvalidSetting.
    """
    parser = argparse.ArgumentParser(prog=program, description=purpose)
    for setting in fields(Settings):
        _add(parser, setting.name, setting.default, setting.metadata["help"], setting.metadata["form"])
    values = vars(parser.parse_args(arguments))
    for name in (setting.name for setting in fields(Settings) if type(setting.default) is tuple):
        values[name] = tuple(values[name] or _from_environment(name, tuple) or ())
    settings = Settings(**{name: value for name, value in values.items() if value is not None})
    check(settings)
    return settings


def variable(name: str) -> str:
    """The environment variable of a setting."""
    return "FLOTILLA_" + name.upper()


def _add(parser: argparse.ArgumentParser, name: str, default: Any, text: str, form: str) -> None:
    kind = type(default)
    shown = f"{text} [${variable(name)}; default {default!r}]".replace("%", "%%")
    flag = "--" + name.replace("_", "-")
    if kind is tuple:
        # Given as its default, the variable would be added to and not replaced.
        parser.add_argument(flag, action="append", metavar=form, help=shown)
        return
    value = _from_environment(name, kind)
    if kind is bool:
        parser.add_argument(flag, action=argparse.BooleanOptionalAction, default=value, help=shown)
    else:
        parser.add_argument(flag, type=kind, default=value, metavar=kind.__name__.upper(), help=shown)


def _from_environment(name: str, kind: type) -> Any:
    text = os.environ.get(variable(name))
    if text is None:
        return None
    if kind is bool:
        if text.lower() not in ("true", "false", "1", "0"):
            raise InvalidSetting(f"${variable(name)}: {text!r} is neither true nor false")
        return text.lower() in ("true", "1")
    if kind is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    try:
        return kind(text)
    except ValueError as error:
        raise InvalidSetting(f"${variable(name)}: {text!r} is not a {kind.__name__}") from error
