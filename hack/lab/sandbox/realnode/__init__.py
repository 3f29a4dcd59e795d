"""A real node for a cluster of the sandbox: kubelet, containerd and kube-proxy, so that containers really run.

The node is a mount namespace over the cluster's network namespace, with /run, /var/lib and /var/log of its own
(`machine`). Whatever is mounted for pods is mounted in there, and goes with the last process of the node: taking a node
down is to end its processes, which marks (`process`) and the node's cgroup (`cgroups`) name, and nothing else.

There is no registry: images are made on the spot (`images`). There is no cluster DNS.
"""
