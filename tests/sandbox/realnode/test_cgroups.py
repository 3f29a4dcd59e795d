"""Cgroups of nodes."""

from pathlib import Path

from hack.lab.sandbox.realnode import cgroups

MOUNTINFO = """\
24 1 0:22 / /proc rw,nosuid - proc proc rw
30 24 0:26 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755
31 30 0:27 / /sys/fs/cgroup/memory rw,relatime shared:9 master:1 - cgroup cgroup rw,memory
32 30 0:28 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""


def test_hierarchies_of_both_versions_are_found() -> None:
    want = [Path("/sys/fs/cgroup/memory"), Path("/sys/fs/cgroup/unified")]
    assert cgroups.hierarchies(MOUNTINFO) == want


def test_nothing_is_killed_that_is_not_in_the_cgroup() -> None:
    cgroups.kill(1, "flotilla-000000-*")
    assert cgroups.members("flotilla-000000-*") == set()
    assert not cgroups.remove("flotilla-000000-*")
