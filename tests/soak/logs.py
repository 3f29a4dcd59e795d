"""Builders of audit log lines as API servers write them. Times are seconds since BEGINNING."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from agent.api.names import LABEL_PARENT_UID, SCHEDULER_PROXY
from hack.lab.soak.audit import Line, parse
from hack.lab.soak.evidence import Evidence, Outage
from hack.lab.soak.lives import History

Raw = dict[str, Any]
BEGINNING = datetime(2026, 11, 23, 12, tzinfo=UTC)
GRACE = 10
KUBE = "system:serviceaccount:kube-system:"
ADMIN, GARBAGE, KWOK = "flotilla-admin", f"{KUBE}generic-garbage-collector", "flotilla-kwok"
REPLICAS, AGENT, NODES = f"{KUBE}replicaset-controller", f"{KUBE}flotilla-agent", f"{KUBE}node-controller"


def at(seconds: float) -> float:
    """Return a time as seconds since 1970."""
    return BEGINNING.timestamp() + seconds


def stamp(seconds: float) -> str:
    """Return a time in the format of audit logs."""
    return (BEGINNING + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


def line(
    seconds: float,
    verb: str,
    resource: str,
    name: str,
    answer: Raw | None = None,
    *,
    user: str = ADMIN,
    code: int = 200,
    body: Raw | None = None,
    took: float = 0.01,
    uri: str = "/api/v1/namespaces/default/pods",
) -> bytes:
    """Return one line, about a request received `took` seconds earlier."""
    kind, _, sub = resource.partition("/")
    made = {
        "kind": "Event",
        "apiVersion": "audit.k8s.io/v1",
        "level": "RequestResponse",
        "stage": "ResponseComplete",
        "verb": verb,
        "requestURI": uri,
        "user": {"username": user, "groups": ["system:authenticated"]},
        "objectRef": {"resource": kind, "subresource": sub, "namespace": "default", "name": name},
        "responseStatus": {"metadata": {}, "code": code},
        "requestObject": body or {},
        "responseObject": answer or {},
        "requestReceivedTimestamp": stamp(seconds - took),
        "stageTimestamp": stamp(seconds),
    }
    return json.dumps(made, separators=(",", ":")).encode()


class Pod:
    """Builder of the lines about one pod. A delegate has a `parent`."""

    def __init__(
        self, name: str, uid: str, parent: str = "", owner: str = "ReplicaSet", restarts: str = "Always"
    ) -> None:
        self.lines: list[bytes] = []
        self._deleted = 0
        self._name = name
        labels = {LABEL_PARENT_UID: parent} if parent else {"app": name.partition("-")[0]}
        kind = "PodChaperon" if parent else owner
        owners = [{"kind": kind, "name": name.rpartition("-")[0], "uid": "o", "controller": True}]
        self._metadata: Raw = {
            "name": name,
            "namespace": "default",
            "uid": uid,
            "labels": labels,
            "ownerReferences": owners,
        }
        scheduler = "default-scheduler" if parent else SCHEDULER_PROXY
        self._spec: Raw = {"schedulerName": scheduler, "restartPolicy": restarts}
        self._status: Raw = {"phase": "Pending"}

    def _add(self, seconds: float, verb: str, resource: str = "pods", **more: Any) -> "Pod":
        answer = {"kind": "Pod", "metadata": dict(self._metadata), "spec": dict(self._spec), "status": self._status}
        self.lines.append(line(seconds, verb, resource, self._name, answer, **more))
        return self

    def created(self, seconds: float, user: str = AGENT) -> "Pod":
        self._metadata["creationTimestamp"] = stamp(int(seconds))[:19] + "Z"
        return self._add(seconds, "create", user=user, code=201)

    def unnoted(self, seconds: float) -> "Pod":
        """Set the creation time without a line, as if the log had lost it."""
        self._metadata["creationTimestamp"] = stamp(int(seconds))[:19] + "Z"
        return self

    def bound(self, seconds: float) -> "Pod":
        self._spec["nodeName"] = "node"
        self.lines.append(line(seconds, "create", "pods/binding", self._name, {"kind": "Status"}, code=201))
        return self

    def told(self, seconds: float, phase: str, **more: Any) -> "Pod":
        self._status = {"phase": phase, **more}
        return self._add(seconds, "patch", "pods/status", user=KWOK)

    def running(self, seconds: float) -> "Pod":
        return self.bound(seconds - 0.1).told(seconds, "Running")

    def deleted(self, seconds: float, user: str = GARBAGE, finalizers: tuple[str, ...] = ()) -> "Pod":
        """Delete the pod with a grace period, so that it still exists."""
        return self.unnoted_deletion(seconds, finalizers)._add(seconds, "delete", user=user)

    def unnoted_deletion(self, seconds: float, finalizers: tuple[str, ...] = ()) -> "Pod":
        """Delete the pod with a grace period without a line, as if the log had lost it."""
        self._deleted = int(seconds)
        self._metadata |= {"deletionTimestamp": stamp(self._deleted + GRACE), "deletionGracePeriodSeconds": GRACE}
        self._metadata["finalizers"] = list(finalizers)
        return self

    def gone(self, seconds: float, user: str = KWOK) -> "Pod":
        self._metadata |= {"deletionGracePeriodSeconds": 0, "deletionTimestamp": stamp(seconds)}
        self._metadata.pop("finalizers", None)
        return self._add(seconds, "delete", user=user, body={"gracePeriodSeconds": 0})

    def released(self, seconds: float) -> "Pod":
        """Remove the last finalizer after a deletion without grace, which ends the pod."""
        self._metadata |= {"deletionTimestamp": stamp(self._deleted), "deletionGracePeriodSeconds": 0}
        self._metadata.pop("finalizers", None)
        return self._add(seconds, "patch", user=AGENT)

    def missing(self, seconds: float, verb: str = "delete") -> "Pod":
        self.lines.append(line(seconds, verb, "pods", self._name, {"kind": "Status"}, code=404))
        return self


def proxy(uid: str = "p", name: str = "web-1", **more: str) -> Pod:
    """Return the builder of a proxy pod."""
    return Pod(name, uid, **more)


def delegate(uid: str = "d", parent: str = "p", name: str = "web-1-chaperon", **more: str) -> Pod:
    """Return the builder of a delegate."""
    return Pod(name, uid, parent, **more)


def history(**clusters: Pod | bytes | list[Pod | bytes]) -> History:
    """Return the history from the lines of clusters, in any order."""
    found = History()
    for cluster, given in clusters.items():
        parts = given if isinstance(given, list) else [given]
        lines: list[Line] = []
        for part in parts:
            for each in part.lines if isinstance(part, Pod) else [part]:
                parsed = parse(each)
                assert parsed is not None
                lines.append(parsed)
        lines.sort(key=lambda each: each.stage_timestamp)
        found.add(cluster, lines)
    return found


def evidence(found: History, *outages: Outage, living: set[tuple[str, str]] | None = None, **jobs: int) -> Evidence:
    """Return evidence with source `cd`. `living` defaults to all pods without a recorded end."""
    there = {key for key, life in found.lives.items() if life.over is None} if living is None else living
    return Evidence("cd", found, outages, frozenset(there), jobs)


def outage(cluster: str, process: str, began: float, ended: float, what: str = "kill") -> Outage:
    """Return an outage from start to end in seconds since BEGINNING."""
    return Outage(cluster, process, what, at(began), at(ended))
