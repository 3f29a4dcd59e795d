"""Machine of a real node: one small process that holds its mount namespace.

Its end is like a power failure: the next `up` ends the other processes of the node and boots it again.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hack.lab.sandbox.ipfamilies import POD_NETWORKS, version_of

UP = "run/flotilla-node"
"""File, relative to the root of the node, that exists once everything is mounted."""
COVERED = ("/run", "/var/run", "/var/lib", "/var/log")
"""Folders that a node has separately, so that it leaves nothing in the machine's folders."""

_TUNABLES: Mapping[str, int] = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
"""Kernel settings of a kubelet (pkg/kubelet/cm, `setupKernelTunables`).

The sandbox mounts files with these values over the real ones: the kubelet changes nothing, and the machine
keeps its own settings.
"""

_SCRIPT = """
set -e
busybox=$1 data=$2 networks=$3
shift 3
b() { "$busybox" "$@"; }
b mount --make-rshared /
b mount -o bind "$data/log" /var/log
b mount -o bind "$data/lib" /var/lib
b mount -t tmpfs -o mode=755 tmpfs /run
b mkdir -p /run/lock /run/netns /run/tunables
for tunable in "$@"; do
    file=/proc/sys/${tunable%=*}
    kept=/run/tunables/$(b basename "$file")
    [ -e "$file" ] || continue
    echo "${tunable#*=}" >"$kept"
    b mount -o bind "$kept" "$file"
done
for network in $networks; do
    pods=${network%=*} all=${network#*=}
    case $pods in
    *:*) iptables=ip6tables forwarding=ipv6/conf/all/forwarding ;;
    *) iptables=iptables forwarding=ipv4/ip_forward ;;
    esac
    echo 1 >/proc/sys/net/$forwarding
    masquerade="POSTROUTING -s $pods ! -d $all -j MASQUERADE"
    $iptables -w -t nat -C $masquerade 2>/dev/null || $iptables -w -t nat -A $masquerade
done
: >/run/flotilla-node
exec "$busybox" sleep 2147483647
"""


def arguments(programs: Mapping[str, str], data: Path, pod_ranges: Sequence[str]) -> list[str]:
    """Return the arguments of `unshare`. `data` has the folders `lib` and `log`, `pod_ranges` are the node's pods.

    Pods keep their address on the way to pods of other clusters; other destinations receive the node's address.
    """
    busybox = programs["busybox"]
    networks = " ".join(f"{each}={POD_NETWORKS[version_of(each)]}" for each in pod_ranges)
    script = [busybox, "sh", "-c", _SCRIPT, "node", busybox, str(data), networks]
    tunables = [f"{name}={value}" for name, value in _TUNABLES.items()]
    return ["--mount", "--propagation=private", "--", *script, *tunables]


def hidden(path: Path) -> bool:
    """Return whether a path of the machine is invisible to a node."""
    resolved = path.resolve()
    return any(resolved.is_relative_to(folder) for folder in COVERED)
