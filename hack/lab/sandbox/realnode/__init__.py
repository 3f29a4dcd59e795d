"""A real node for a cluster of the sandbox: kubelet, containerd and kube-proxy run real containers.

The node is a mount namespace over the cluster's network namespace, with separate /run, /var/lib and /var/log
(`machine`). Mounts for pods are made in it and disappear with its last process. So taking a node down only
means ending its processes, found by marks (`process`) and by the node's cgroup (`cgroups`).

There is no registry: images are built locally (`images`). There is no cluster DNS.
"""
