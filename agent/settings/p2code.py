"""Settings of P2CODE's applications and AC3's links between clusters."""

from dataclasses import dataclass
from typing import Literal

from agent.api.names.ac3 import AC3_NAMESPACE
from agent.base.flag_values import SWITCH, TEXT, one_of
from agent.base.flags import InvalidSetting, flag, tuned
from agent.settings.pods import Followers

Precedence = Literal["global", "and"]
Distribution = Literal["elect", "works"]


@dataclass(frozen=True, kw_only=True)
class Applications:
    """Whole applications, as P2CODE's scheduler takes them."""

    p2code: bool = flag(
        SWITCH,
        "false",
        "serve P2CodeSchedulingManifests: bundle their manifests and choose a cluster for each bundle",
    )
    p2code_precedence: Precedence = tuned(
        one_of("global", "and"),
        "global",
        "with p2code, effect of a filter that is both in globalAnnotations and in a workload's annotations: global"
        " (only the global one; a condition reports it), and (both, as in P2CODE's own scheduler)",
    )
    p2code_distribution: Distribution = flag(
        one_of("elect", "works"),
        "elect",
        "with p2code, default of the annotation multicluster/distribution: elect (manifests are applied in this"
        " cluster, and pods run in the chosen one), works (ManifestWorks of Open Cluster Management bring all manifests"
        " to the chosen cluster)",
    )
    p2code_namespace: str = tuned(
        TEXT,
        "",
        "with p2code, the only namespace whose P2CodeSchedulingManifests are served, as p2code-scheduler-system;"
        " empty: all",
    )


@dataclass(frozen=True, kw_only=True)
class Networks(Followers):
    """Links between clusters, as AC3's network operator takes them."""

    ac3_networks: bool = flag(
        SWITCH,
        "false",
        "serve MultiClusterNetworks: create their ServiceLinks and share their Services",
    )
    ac3_namespace: str = tuned(
        TEXT,
        AC3_NAMESPACE,
        "with ac3-networks, the namespace whose MultiClusterNetworks may link Services of other namespaces; empty:"
        " none",
    )

    def check(self) -> None:
        """Raise InvalidSetting if MultiClusterNetworks are served without ServiceLinks."""
        if self.ac3_networks and not self.service_links:
            raise InvalidSetting("--ac3-networks makes ServiceLinks: leave --no-service-links out")
