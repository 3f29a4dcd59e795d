"""What stands for the machine of a real node: one small process that holds its mount namespace.

Ending it is pulling the plug: another `up` ends what was left of the node and boots it again.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from hack.lab.sandbox.ipfamilies import POD_NETWORKS, version_of

UP = "run/flotilla-node"
"""A file that is there, seen from the root of the node, once everything is mounted."""
COVERED = ("/run", "/var/run", "/var/lib", "/var/log")
"""Folders of the machine that a node has of its own, so that nothing of it is left on the machine."""

_TUNABLES: Mapping[str, int] = {
    "vm/overcommit_memory": 1,
    "vm/panic_on_oom": 0,
    "kernel/panic": 10,
    "kernel/panic_on_oops": 1,
    "kernel/keys/root_maxkeys": 1000000,
    "kernel/keys/root_maxbytes": 25000000,
}
"""What a kubelet sets in the kernel (pkg/kubelet/cm, `setupKernelTunables`). Here it finds it set already, in files
mounted over the real ones: a sandbox must not change how the whole machine behaves."""

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
    """Arguments of `unshare`. `data` has the folders `lib` and `log`, `pod_ranges` the node's pods.

    Pods keep their address on the way to pods of other clusters; to anything else they appear as their node.
    """
    busybox = programs["busybox"]
    networks = " ".join(f"{each}={POD_NETWORKS[version_of(each)]}" for each in pod_ranges)
    script = [busybox, "sh", "-c", _SCRIPT, "node", busybox, str(data), networks]
    tunables = [f"{name}={value}" for name, value in _TUNABLES.items()]
    return ["--mount", "--propagation=private", "--", *script, *tunables]


def hidden(path: Path) -> bool:
    """Whether a node would not see what is at this path of the machine."""
    resolved = path.resolve()
    return any(resolved.is_relative_to(folder) for folder in COVERED)
