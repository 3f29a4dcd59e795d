"""Real containers: volumes of pods, logs, exec, metrics, Services, and pods of other clusters."""

import json
import shutil
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from hack.lab.sandbox import Sandbox, SandboxError
from hack.lab.sandbox.realnode import images
from tests.sandbox.realnode.conftest import CLIENT, apply, field, kubectl, ready, run
from tests.waiting import until

# tests/e2e/test_30_kubelet.py, test_31_traffic.py and test_33_last_words.py run containers in every run.
pytestmark = [pytest.mark.cluster, pytest.mark.realnodes, pytest.mark.timeout(120), pytest.mark.seldom]

WEB = """
apiVersion: v1
kind: ConfigMap
metadata: {name: words}
data: {greeting: hello}
---
apiVersion: v1
kind: Secret
metadata: {name: hidden}
stringData: {password: xyzzy}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  terminationGracePeriodSeconds: 1
  initContainers:
  - name: init
    image: flotilla.local/busybox:1
    imagePullPolicy: Never
    command: [sh, -c, "echo CLUSTER > /data/index.html; echo prepared"]
    volumeMounts: [{name: data, mountPath: /data}]
  containers:
  - name: web
    image: flotilla.local/busybox:1
    command: [sh, -c, "echo serving; exec httpd -f -vv -p 8080 -h /data"]
    ports: [{name: http, containerPort: 8080}]
    readinessProbe: {httpGet: {port: http, path: /}, periodSeconds: 1}
    resources: {limits: {memory: 64Mi, cpu: 500m}}
    volumeMounts: [{name: data, mountPath: /data}]
  - name: side
    image: flotilla.local/busybox:1
    command: [sleep, "100000"]
    env:
    - {name: PASSWORD, valueFrom: {secretKeyRef: {name: hidden, key: password}}}
    - {name: POD_IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    envFrom: [{configMapRef: {name: words}}]
    volumeMounts: [{name: data, mountPath: /data}, {name: all, mountPath: /all}, {name: words, mountPath: /words}]
  volumes:
  - {name: data, emptyDir: {}}
  - {name: words, configMap: {name: words}}
  - name: all
    projected:
      sources:
      - configMap: {name: words}
      - secret: {name: hidden}
      - downwardAPI: {items: [{path: name, fieldRef: {fieldPath: metadata.name}}]}
      - serviceAccountToken: {path: token}
---
apiVersion: v1
kind: Service
metadata: {name: web}
spec: {selector: {app: web}, ports: [{port: 80, targetPort: http}]}
"""
ELSEWHERE = """
apiVersion: v1
kind: Service
metadata: {name: elsewhere}
spec: {ports: [{port: 80}]}
---
apiVersion: discovery.k8s.io/v1
kind: EndpointSlice
metadata: {name: elsewhere, labels: {kubernetes.io/service-name: elsewhere}}
addressType: IPv4
ports: [{port: 8080}]
endpoints: [{addresses: [ADDRESS], conditions: {ready: true}}]
"""
OWN = """
apiVersion: v1
kind: Pod
metadata: {name: own}
spec:
  restartPolicy: Never
  containers: [{name: main, image: "flotilla.local/own:1", imagePullPolicy: Never}]
"""


@pytest_asyncio.fixture(scope="module", loop_scope="module", autouse=True)
async def pods(real: Sandbox) -> None:
    """Start the clusters and the same pods in both, outside any test's time limit."""
    for cluster in real.clusters:
        await apply(cluster, WEB.replace("CLUSTER", cluster.name))
        await apply(cluster, CLIENT)
    for cluster in real.clusters:
        await ready(cluster, "web", "client")


async def test_a_pod_of_several_containers_has_its_files_environment_logs_and_exec(real: Sandbox) -> None:
    a = real["a"]
    assert await kubectl(a, "logs", "web", "-c", "init") == "prepared\n"
    assert (await kubectl(a, "logs", "web", "-c", "web")).startswith("serving\n")
    files = await run(a, "web", "cd /all; cat greeting password name; test -s token && echo /token", "side")
    assert files == "helloxyzzyweb/token\n"
    assert await run(a, "web", 'echo "$PASSWORD $greeting $POD_IP"', "side") == (
        f"xyzzy hello {await field(a, '.status.podIP', 'pod', 'web')}\n"
    )
    assert await run(a, "web", "cat /data/index.html", "side") == "a\n"
    with pytest.raises(SandboxError, match="exit code 7"):
        await run(a, "web", "exit 7", "side")


async def test_a_service_answers_under_its_address_also_to_its_own_backend(real: Sandbox) -> None:
    for cluster in real.clusters:
        address = await field(cluster, ".spec.clusterIP", "service", "web")
        for pod, container in (("client", ""), ("web", "side")):
            assert await run(cluster, pod, f"wget -qO- http://{address}/", container) == f"{cluster.name}\n"


async def test_pods_reach_pods_of_the_other_cluster_under_their_own_address_and_by_service(real: Sandbox) -> None:
    a, b = real.clusters
    there = await field(b, ".status.podIP", "pod", "web")
    here = await field(a, ".status.podIP", "pod", "client")
    assert await run(a, "client", f"wget -qO- http://{there}:8080/") == "b\n"
    await until(lambda: _logged(real, here))
    await apply(a, ELSEWHERE.replace("ADDRESS", there))
    service = await field(a, ".spec.clusterIP", "service", "elsewhere")

    async def answers() -> bool:
        return await run(a, "client", f"timeout 2 wget -qO- http://{service}/ || true") == "b\n"

    await until(answers)


async def _logged(sandbox: Sandbox, address: str) -> bool:
    return address in await kubectl(sandbox["b"], "logs", "web", "-c", "web")


async def test_the_api_server_is_reached_from_a_pod_under_its_service(real: Sandbox) -> None:
    address = await field(real["b"], ".spec.clusterIP", "service", "kubernetes")
    assert address == "10.97.0.1"
    await run(real["b"], "client", f"nc -w 2 {address} 443 </dev/null")


async def test_the_kubelet_serves_metrics_through_the_api_server_and_nothing_to_strangers(real: Sandbox) -> None:
    a = real["a"]
    proxy = "/api/v1/nodes/a-node-0/proxy"

    async def measured() -> bool:
        # The kubelet measures every ten seconds.
        return 'pod="web"' in await kubectl(a, "get", "--raw", f"{proxy}/metrics/resource")

    await until(measured)
    pods = json.loads(await kubectl(a, "get", "--raw", f"{proxy}/stats/summary"))["pods"]
    assert "web" in [pod["podRef"]["name"] for pod in pods]
    assert "kubelet_running_pods" in await kubectl(a, "get", "--raw", f"{proxy}/metrics")
    async with (
        aiohttp.ClientSession() as session,
        session.get(f"https://{a.address}:{a.ports['kubelet']}/pods", ssl=False) as response,
    ):
        assert response.status == 401


async def test_an_image_made_of_a_tree_runs_on_every_node(real: Sandbox, tmp_path: Path) -> None:
    tree = tmp_path / "tree"
    (tree / "bin").mkdir(parents=True)
    shutil.copy(real.plan.programs["busybox"], tree / "bin" / "busybox")
    (tree / "message").write_text("made here\n")
    start = images.Start(("/bin/busybox", "cat"), ("/message",))
    await real.load(images.build(tree, tmp_path / "own.tar", "flotilla.local/own:1", start))
    for cluster in real.clusters:
        await apply(cluster, OWN)
        await kubectl(cluster, "wait", "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s", "pod/own")
        assert await kubectl(cluster, "logs", "own") == "made here\n"


async def test_an_edit_of_a_config_map_reaches_the_files_of_a_pod(real: Sandbox) -> None:
    await kubectl(real["a"], "patch", "configmap", "words", "-p", '{"data": {"greeting": "changed"}}')
    # A single exec polls: one exec per check would cost more than the rest of the test.
    looks = "for i in $(seq 60); do grep -q changed /words/greeting && break; sleep 1; done; cat /words/greeting"
    assert await run(real["a"], "web", looks, "side") == "changed"
