"""Compaction of a test cluster's etcd through its JSON gateway."""

import asyncio
import sys

from hack.lab.sandbox import Cluster

_COMPACT = """
import json, sys, urllib.request
def call(path, body):
    request = urllib.request.Request(sys.argv[1] + path, json.dumps(body).encode())
    return json.load(urllib.request.urlopen(request, timeout=10))
revision = call("/v3/kv/range", {"key": "AA=="})["header"]["revision"]
call("/v3/kv/compaction", {"revision": revision, "physical": True})
"""


async def compact(cluster: Cluster) -> None:
    """Compact etcd at the latest revision, as the API server does every five minutes."""
    plan = cluster.runner.cluster
    inside = ["nsenter", f"--net=/var/run/netns/{plan.namespace}"] if plan.namespace else []
    url = f"http://{plan.private_address}:{plan.ports['etcd']}"
    process = await asyncio.create_subprocess_exec(*inside, sys.executable, "-c", _COMPACT, url)
    assert await process.wait() == 0
