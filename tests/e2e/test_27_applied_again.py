"""Promise 27: a bare pod's manifest can be applied again, as Argo CD and scripts do, and mutable fields are
updated."""

import json
from pathlib import Path

from agent.api.kinds import PODS
from tests.e2e import manifests
from tests.e2e.fleet import Fleet, Raw


def bare_pod(image: str = "busybox") -> Raw:
    """Return a pod with a value in every field that the webhook changes."""
    made = manifests.pod(
        "bare",
        nodeSelector={manifests.REGION: "eu"},
        tolerations=[{"key": "spot", "operator": "Exists", "effect": "NoSchedule"}],
        topologySpreadConstraints=[manifests.spread("bare", "kubernetes.io/hostname", "ScheduleAnyway")],
        terminationGracePeriodSeconds=7,
        schedulerName="default-scheduler",
    )
    made["spec"]["containers"][0]["image"] = image
    return made


async def test_a_bare_pod_is_applied_again_and_its_new_image_arrives(
    fleet: Fleet, namespace: str, tmp_path: Path
) -> None:
    file = tmp_path / "pod.json"
    where = (f"--filename={file}", f"--namespace={namespace}")
    file.write_text(json.dumps(bare_pod()))
    await fleet.kubectl("cd", "apply", *where)
    (first,) = await fleet.running(namespace, "bare", 1)
    for arguments in ((), ("--server-side", "--force-conflicts")):
        await fleet.kubectl("cd", "apply", *where, *arguments)
        again = await fleet.source.get(PODS, "bare", namespace)
        assert again["metadata"]["uid"] == first["metadata"]["uid"]
        assert again["spec"] == first["spec"]
    # Exits with an error if there is any difference.
    assert await fleet.kubectl("cd", "diff", *where) == ""

    file.write_text(json.dumps(bare_pod("busybox:2")))
    await fleet.kubectl("cd", "apply", *where)

    async def arrived() -> bool:
        delegates = list((await fleet.delegates(namespace)).values())
        return [pod["spec"]["containers"][0]["image"] for _, pod in delegates] == ["busybox:2"]

    await fleet.until("the delegate has the new image", arrived, about=namespace)
    await fleet.agree(namespace)
