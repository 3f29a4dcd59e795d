"""Manifests of the corpus that come out otherwise, and why; docs/corpus.md has the same table."""

_ACCOUNT = "a service account follows only where that is asked for"
_CLAIM = "the claim here stays Pending, though the target has its volume"
_AGENT = "its pods on virtual nodes stay Pending, so it never rolls out"
_POD = "a bare pod that says what proxy pods have otherwise cannot be applied again"
_CLASS = "the class does not follow, and no target has it"

EXPECTED: dict[str, str] = {
    "batch-pipeline.yaml": _CLAIM,
    "daemon-set-node-agent.yaml": _AGENT,
    "helm-rendered.yaml": _ACCOUNT,
    "leader-election.yaml": _ACCOUNT,
    "message-broker.yaml": _CLAIM,
    "monitoring.yaml": _ACCOUNT,
    "node-selectors.yaml": _POD,
    "operator-with-crd.yaml": _ACCOUNT,
    "pod-bare.yaml": _POD,
    "priority-class.yaml": _CLASS,
    "service-account-job.yaml": _ACCOUNT,
    "service-account.yaml": _ACCOUNT,
    "stateful-set-claims.yaml": _CLAIM,
    "stateful-set-retention.yaml": _CLAIM,
    "static-volume.yaml": "the volume is in this cluster, and no target has it",
    "storage-class.yaml": _CLASS,
    "three-tiers.yaml": _CLAIM,
    "volumes-block.yaml": _CLAIM,
    "volumes-claim-shared.yaml": _CLAIM,
    "volumes-claim.yaml": _CLAIM,
    "volumes-ephemeral-claim.yaml": "the claim is made twice, and the one here, of no use, stays Pending",
}
"""By file. What is alike all the same has no place here."""
