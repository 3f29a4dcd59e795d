"""Plan of a soak's faults and users' steps. A pure function of seed and length, so that it can be repeated.

Saved as JSON lines: a head, then one event per line, ordered by time.
"""

import random
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

import msgspec

from hack.lab.soak.errors import SoakError

SOURCE, *TARGETS = CLUSTERS = ("cd", "us", "eu")
What = Literal["kill", "stop", "restart", "cut", "requests", "replies"]
Victim = Literal["leader", "standby", "webhook", "kube-apiserver", "etcd", "link"]
"""`leader` and `standby` are the leading and the other agent of a cluster at the time of the fault."""
Sort = Literal["Deployment", "StatefulSet", "Job", "Flop", "Misfit"]
"""A Flop is a Job whose pod fails, a Misfit is a Deployment whose pods do not fit on any node."""

LONGEST_SECONDS = 60.0
SHORTEST_SECONDS = 1.0
AT_ONCE = 3
"""Most faults at the same time."""
SETTLE_SHARE = 0.5
"""Longest fault as a fraction of the remaining time. After it, Kubernetes' controllers back off for as long again."""
RAMP_SHARE = 0.1
"""Fraction of the time, before the first fault, in which all pods are created."""
TURNOVER_SECONDS = 150.0
"""Seconds until the number of recreated pods equals the number of pods."""
_MEAN_SIZE = 6.0
_PER_FAULT_SECONDS = 5.0


class Head(msgspec.Struct, frozen=True, tag="plan", tag_field="event"):
    """Parameters of a plan: seed, minutes of faults, and pods at a time."""

    seed: int
    minutes: float
    pods: int


class Fault(msgspec.Struct, frozen=True, tag="fault", tag_field="event"):
    """A fault of `seconds` that begins at `at`, in seconds from the start.

    A process is killed, stopped or restarted. A link is cut, or loses the source's requests or the target's
    replies.
    """

    at: float
    what: What
    cluster: str
    process: Victim
    seconds: float

    @property
    def end(self) -> float:
        """End of the fault, in seconds from the start."""
        return self.at + self.seconds


class Step(msgspec.Struct, frozen=True, tag="step", tag_field="event"):
    """A step of a user: create, scale, roll or delete a workload.

    `seconds` is how long pods of a Job run, and how long other pods take to terminate.
    """

    at: float
    verb: Literal["create", "scale", "roll", "delete"]
    sort: Sort
    name: str
    pods: int
    seconds: float = 0.0
    claims: bool = False
    files: bool = False
    """Whether its pods need a ConfigMap and a Secret that are named after the workload."""
    service: bool = False


Event: TypeAlias = Fault | Step


@dataclass(frozen=True)
class Plan:
    """Events, ordered by time."""

    head: Head
    events: tuple[Event, ...]

    @property
    def seconds(self) -> float:
        """Length of the plan."""
        return self.head.minutes * 60

    @property
    def faults(self) -> list[Fault]:
        """All faults."""
        return [event for event in self.events if isinstance(event, Fault)]

    @property
    def steps(self) -> list[Step]:
        """All steps of users."""
        return [event for event in self.events if isinstance(event, Step)]

    def dump(self) -> bytes:
        """Return the plan as JSON lines."""
        return msgspec.json.Encoder().encode_lines([self.head, *self.events])


def parse(text: bytes) -> Plan:
    """Parse a plan that `dump` wrote. Raises SoakError if it is invalid."""
    try:
        head, *events = msgspec.json.Decoder(Head | Fault | Step).decode_lines(text)
    except (msgspec.DecodeError, ValueError) as error:
        raise SoakError(f"this is no plan: {error}") from error
    found = tuple(event for event in events if not isinstance(event, Head))
    if not isinstance(head, Head) or len(found) != len(events):
        raise SoakError("this is no plan: only its first line tells seed, minutes and pods")
    return Plan(head, found)


def read(path: Path) -> Plan:
    """Read a saved plan. Raises SoakError."""
    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise SoakError(f"the plan cannot be read: {error}") from error


def make(seed: int, minutes: float, pods: int) -> Plan:
    """Return the plan of a seed."""
    seconds = minutes * 60
    steps = _steps(random.Random(f"{seed} steps"), seconds, pods)
    faults = _faults(random.Random(f"{seed} faults"), seconds)
    # At equal times steps come first, so that a fault interrupts the user's request.
    events: list[Event] = [*steps, *faults]
    events.sort(key=lambda event: event.at)
    return Plan(Head(seed, minutes, pods), tuple(events))


def wanted(steps: Iterable[Step]) -> dict[str, Step]:
    """Return the workloads that exist at the end, by name: the step that created each, with its final number of
    pods.
    """
    found: dict[str, Step] = {}
    for step in steps:
        match step.verb:
            case "create":
                found[step.name] = step
            case "scale":
                found[step.name] = msgspec.structs.replace(found[step.name], pods=step.pods)
            case "roll":
                pass
            case "delete":
                del found[step.name]
    return found


def claims(steps: Iterable[Step]) -> int:
    """Return the largest number of claims that the workloads can create."""
    most: dict[str, int] = {}
    having = set()
    for step in steps:
        if step.claims:
            having.add(step.name)
        if step.name in having:
            most[step.name] = max(most.get(step.name, 0), step.pods)
    return sum(most.values())


# Possible faults, with their relative frequency.
_OF_SOURCE: Mapping[tuple[What, Victim], int] = {
    ("kill", "leader"): 4,
    ("stop", "leader"): 4,
    ("restart", "leader"): 1,
    ("kill", "standby"): 1,
    ("stop", "standby"): 1,
    ("kill", "webhook"): 1,
    ("stop", "webhook"): 1,
    ("kill", "kube-apiserver"): 2,
    ("stop", "kube-apiserver"): 2,
    ("restart", "kube-apiserver"): 1,
    ("kill", "etcd"): 1,
    ("stop", "etcd"): 1,
    ("cut", "link"): 2,
}
_OF_TARGET: Mapping[tuple[What, Victim], int] = {
    **_OF_SOURCE,
    ("kill", "leader"): 2,
    ("stop", "leader"): 2,
    ("requests", "link"): 2,
    ("replies", "link"): 3,
}


def _faults(chance: random.Random, seconds: float) -> Iterator[Fault]:
    """Yield random faults. A process or link has one at a time, and one of a cluster's two agents stays untouched."""
    table = [(SOURCE, *what) for what, weight in _OF_SOURCE.items() for _ in range(weight)]
    table += [(target, *what) for target in TARGETS for what, weight in _OF_TARGET.items() for _ in range(weight)]
    busy: dict[tuple[str, str], float] = {}
    now = seconds * RAMP_SHARE
    while True:
        now += chance.expovariate(1 / _PER_FAULT_SECONDS)
        cluster, what, process = table[chance.randrange(len(table))]
        length = _length(chance, what, seconds - now)
        busy = {key: end for key, end in busy.items() if end > now}
        victim = (cluster, "agents" if process in ("leader", "standby") else process)
        if now + length >= seconds - SHORTEST_SECONDS:
            return
        if len(busy) >= AT_ONCE or victim in busy:
            continue
        busy[victim] = now + length
        yield Fault(round(now, 2), what, cluster, process, round(length, 2))


def _length(chance: random.Random, what: str, left: float) -> float:
    """Return a random length, log-uniform between the shortest and the longest one; 0 for a restart."""
    most = max(SHORTEST_SECONDS, min(LONGEST_SECONDS, left * SETTLE_SHARE))
    length = SHORTEST_SECONDS * (most / SHORTEST_SECONDS) ** chance.random()
    return 0.0 if what == "restart" else length


def _steps(chance: random.Random, seconds: float, pods: int) -> Iterator[Step]:
    """Yield steps that create workloads up to the number of pods, and then create, change and delete some."""
    there: dict[str, Step] = {}
    number = 0
    now = 0.0
    ramp = seconds * RAMP_SHARE
    turnover = min(TURNOVER_SECONDS, seconds)
    while True:
        count = sum(step.pods for step in there.values())
        growing = count < pods and now < ramp
        share = pods / _MEAN_SIZE
        now += chance.expovariate(share / ramp if growing else share / turnover * 2)
        if now >= seconds:
            return
        if not there or growing or (count < pods and chance.random() < 0.6):
            step = _new(chance, now, number, pods - count)
            number += 1
        else:
            step = _change(chance, now, there[chance.choice(sorted(there))])
        there = wanted([*there.values(), step])
        yield step


def _new(chance: random.Random, now: float, number: int, room: int) -> Step:
    at = round(now, 2)
    pods = max(1, min(room, chance.randint(1, round(_MEAN_SIZE * 2 - 1))))
    match chance.choices(("Deployment", "StatefulSet", "Job", "Flop", "Misfit"), (10, 4, 8, 1, 1))[0]:
        case "Deployment":
            ending = chance.choice((0.0, 0.5, 3.0))
            files, service = chance.random() < 0.4, chance.random() < 0.25
            return Step(at, "create", "Deployment", f"web-{number}", pods, ending, files=files, service=service)
        case "StatefulSet":
            ending = chance.choice((0.5, 3.0))
            return Step(at, "create", "StatefulSet", f"db-{number}", min(pods, 5), ending, claims=chance.random() < 0.6)
        case "Job":
            return Step(at, "create", "Job", f"job-{number}", pods, chance.choice((0.0, 2.0, 10.0, 30.0)))
        case "Flop":
            return Step(at, "create", "Flop", f"flop-{number}", 1, chance.choice((0.0, 5.0)))
        case _:
            return Step(at, "create", "Misfit", f"misfit-{number}", min(pods, 3))


def _change(chance: random.Random, now: float, step: Step) -> Step:
    at = round(now, 2)
    verbs: tuple[Literal["delete", "scale", "roll"], ...] = ("delete",)
    if step.sort in ("Deployment", "StatefulSet"):
        verbs = ("delete", "delete", "scale", "scale", "roll")
    verb = chance.choice(verbs)
    pods = step.pods
    if verb == "scale":
        most = 5 if step.sort == "StatefulSet" else 12
        pods = chance.choice([each for each in range(1, most + 1) if each != step.pods])
    return Step(at, verb, step.sort, step.name, pods, step.seconds)
