"""The machine allows as many inotify instances as a sandbox needs."""

from pathlib import Path

from hack.lab.sandbox import inotify


def test_instances_are_allowed_up_to_what_a_sandbox_needs_and_never_fewer_than_before(tmp_path: Path) -> None:
    limit = tmp_path / "max_user_instances"
    for before, after in (("128\n", "1024"), ("8192\n", "8192")):
        limit.write_text(before)
        inotify.allow(limit)
        assert limit.read_text().strip() == after
    inotify.allow(tmp_path / "absent")
