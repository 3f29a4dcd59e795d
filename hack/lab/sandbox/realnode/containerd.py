"""Configuration of containerd and of its pod network. Pure.

Each pod has a link to its node (CNI plugin `ptp`) instead of a bridge: every packet passes the node's routing.
So Services work among pods of one node without the kernel module br_netfilter.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from hack.lab.sandbox.ipfamilies import version_of

SOCKET = "/run/containerd/containerd.sock"
PAUSE_IMAGE = "flotilla.local/pause:1"

Snapshotter = Literal["overlayfs", "native"]

_TEMPLATE = """version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
disabled_plugins = [
  "io.containerd.internal.v1.opt",
  "io.containerd.snapshotter.v1.aufs",
  "io.containerd.snapshotter.v1.btrfs",
  "io.containerd.snapshotter.v1.devmapper",
  "io.containerd.snapshotter.v1.zfs",
]

[grpc]
  address = "{socket}"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  stream_server_address = "127.0.0.1"
  disable_tcp_service = true
  # Without CAP_SYS_RESOURCE, as in many containers, a process may not lower its own score.
  restrict_oom_score_adj = true
  tolerate_missing_hugetlb_controller = true

  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
    default_runtime_name = "runc"

    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"

      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        BinaryName = "{runc}"
        SystemdCgroup = false

  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = "{networks}"
"""


def config(programs: Mapping[str, str], networks: Path, snapshotter: Snapshotter) -> str:
    """Return containerd's configuration (TOML). `networks` is the folder of `network`'s file."""
    return _TEMPLATE.format(
        socket=SOCKET,
        pause=PAUSE_IMAGE,
        snapshotter=snapshotter,
        runc=programs["runc"],
        plugins=Path(programs["ptp"]).parent,
        networks=networks,
    )


def network(pod_ranges: Sequence[str]) -> str:
    """Return the pod network (a CNI configuration list). It does not masquerade: see `machine.arguments`."""
    ranges = [[{"subnet": each}] for each in pod_ranges]
    routes = [{"dst": "::/0" if version_of(each) == 6 else "0.0.0.0/0"} for each in pod_ranges]
    ipam = {"type": "host-local", "ranges": ranges, "routes": routes, "dataDir": "/run/cni-ipam"}
    pods = {"type": "ptp", "ipam": ipam}
    ports = {"type": "portmap", "capabilities": {"portMappings": True}}
    return json.dumps({"cniVersion": "1.0.0", "name": "pods", "plugins": [pods, ports]}, indent=1)
