"""CPU time and memory from /proc."""

import os
import time

import pytest

from hack.lab.benchmarks.procfs import parse, parse_machine, usage

STATUS = "Name:\tpython\nVmPeak:\t  500 kB\nVmHWM:\t   2048 kB\nVmRSS:\t   1024 kB\n"


def test_a_name_with_spaces_and_parentheses_does_not_shift_the_fields() -> None:
    stat = "42 (a) b (c)) S 1 42 42 0 -1 4194560 10 20 30 40 250 50 7 8 20 0 1 0 100 0 0"
    found = parse(stat, STATUS)
    assert found.cpu == 300 / os.sysconf("SC_CLK_TCK")
    assert (found.rss, found.peak) == (1024, 2048)


def test_a_process_that_is_ending_has_no_memory() -> None:
    stat = "42 (x) Z 1 42 42 0 -1 4194560 10 20 30 40 1 1 7 8 20 0 1 0 100 0 0"
    assert parse(stat, "Name:\tx\nState:\tZ (zombie)\n").rss == 0


def test_the_kernel_counts_for_this_process_what_it_uses() -> None:
    before = usage(os.getpid())
    end = time.process_time() + 0.1
    while time.process_time() < end:
        pass
    after = usage(os.getpid())
    assert after.cpu > before.cpu
    assert after.peak >= after.rss > 0


def test_a_process_that_is_gone_is_an_error() -> None:
    child = os.posix_spawnp("true", ["true"], os.environ)
    os.waitpid(child, 0)
    with pytest.raises(OSError, match=str(child)):
        usage(child)


def test_the_machine_works_when_it_neither_idles_nor_waits_for_disks() -> None:
    stat = "cpu  100 20 30 999 888 4 5 6 777 0\ncpu0 1 2 3 4 5 6 7 8 9 0\n"
    assert parse_machine(stat) == 165 / os.sysconf("SC_CLK_TCK")
