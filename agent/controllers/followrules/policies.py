"""Network policies: a copy of each in every target, where its namespace or a pod that it selects asks for it.

Watches  NetworkPolicies and proxy pods here, namespaces that elect, our copies in targets.
Writes   the copies, whose selectors select delegates; a Warning event on an original that cannot be copied.
Absent target: its copies stay, and are brought in line when it is back.
"""

from typing import Any

from agent.api import names
from agent.api.kinds import NETWORK_POLICIES
from agent.controllers.followrules.room import OptInRoom
from agent.kube.store import Object
from agent.model import rulecopies
from agent.scheduling.pod_terms import selector

Raw = dict[str, Any]


class NetworkPolicyRoom(OptInRoom):
    """Keys are a target's virtual node, namespace and name."""

    name = "followpolicies"
    kind = NETWORK_POLICIES
    asked_by = names.FOLLOW_POLICIES

    def concerns(self, original: Object, pod: Object) -> bool:
        """Whether it selects the pod."""
        return selector(original.decode()["spec"].get("podSelector") or {}).matches(pod.labels)

    def wanted(self, original: Raw) -> Raw:
        """The copy."""
        return rulecopies.network_policy(original, self.deps.settings.cluster_name, self.deps.cluster_uid)
