"""Pods for tests, as an API server sends them to the webhook."""

from typing import Any

P = "multicluster.admiralty.io/"
UID = "0f5c2a34-1111-2222-3333-444455556666"


def pod(
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    spec: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Return an elected pod with one container, including the fields that admission adds before the webhook."""
    token = {"name": "kube-api-access-q9", "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-abc12",
            "namespace": "default",
            "uid": UID,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "managedFields": [{"manager": "kubectl"}],
            "labels": labels if labels is not None else {"app": "web", "pod-template-hash": "7d"},
            "annotations": {P + "elect": "", "team": "x", **(annotations or {})},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-7d", "uid": "R", "controller": True}
            ],
            **(metadata or {}),
        },
        "spec": {
            "containers": [
                {"name": "main", "image": "busybox", "volumeMounts": [token, {"name": "d", "mountPath": "/d"}]}
            ],
            "volumes": [
                {"name": "kube-api-access-q9", "projected": {"sources": [{"serviceAccountToken": {"path": "token"}}]}},
                {"name": "d", "emptyDir": {}},
            ],
            "serviceAccountName": "default",
            "schedulerName": "default-scheduler",
            "priority": 0,
            "terminationGracePeriodSeconds": 30,
            "nodeSelector": {"topology.kubernetes.io/region": "eu"},
            "tolerations": [
                {
                    "key": f"node.kubernetes.io/{what}",
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": 300,
                }
                for what in ("not-ready", "unreachable")
            ],
            **(spec or {}),
        },
        "status": {},
    }
