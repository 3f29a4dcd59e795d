"""What is done to a fleet, and when: a pure function of a seed and a length, so that it can be done again.

Kept as JSON lines: a head, then one event on each line, by time.
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
"""Of the two agents of a cluster, the one that leads just then and the other one."""
Sort = Literal["Deployment", "StatefulSet", "Job", "Flop", "Misfit"]
"""A flop is a Job whose pod fails, a misfit a Deployment of pods that fit nowhere."""

LONGEST_SECONDS = 60.0
SHORTEST_SECONDS = 1.0
AT_ONCE = 3
"""Faults at the same time."""
SETTLE_SHARE = 0.5
"""A fault lasts at most this part of what is left of the time: Kubernetes' own controllers wait as long again after
an outage as it has lasted before they look once more."""
RAMP_SHARE = 0.1
"""The part of the time in which all pods come to be, before the first fault."""
TURNOVER_SECONDS = 150.0
"""How long it takes until as many pods have been created anew as there are."""
_MEAN_SIZE = 6.0
_PER_FAULT_SECONDS = 5.0


class Head(msgspec.Struct, frozen=True, tag="plan", tag_field="event"):
    """What the plan was made of: minutes of faults, pods at a time."""

    seed: int
    minutes: float
    pods: int


class Fault(msgspec.Struct, frozen=True, tag="fault", tag_field="event"):
    """From `at` on, for so many seconds: a process is killed and started again, stopped and continued, or restarted in
    an orderly way; a link is cut, or loses what the source asks a target, or what it is answered."""

    at: float
    what: What
    cluster: str
    process: Victim
    seconds: float

    @property
    def end(self) -> float:
        """When it is over."""
        return self.at + self.seconds


class Step(msgspec.Struct, frozen=True, tag="step", tag_field="event"):
    """A user creates a workload, gives it another number of pods, rolls its pods, or deletes it.

    `seconds` is how long the pods of a Job run, and how long others take to end.
    """

    at: float
    verb: Literal["create", "scale", "roll", "delete"]
    sort: Sort
    name: str
    pods: int
    seconds: float = 0.0
    claims: bool = False
    files: bool = False
    """Its pods need a ConfigMap and a Secret of its name."""
    service: bool = False


Event: TypeAlias = Fault | Step


@dataclass(frozen=True)
class Plan:
    """Events by time."""

    head: Head
    events: tuple[Event, ...]

    @property
    def seconds(self) -> float:
        """The length of it."""
        return self.head.minutes * 60

    @property
    def faults(self) -> list[Fault]:
        """Its faults."""
        return [event for event in self.events if isinstance(event, Fault)]

    @property
    def steps(self) -> list[Step]:
        """What users do."""
        return [event for event in self.events if isinstance(event, Step)]

    def dump(self) -> bytes:
        """The plan as JSON lines."""
        return msgspec.json.Encoder().encode_lines([self.head, *self.events])


def parse(text: bytes) -> Plan:
    """The plan that `dump` wrote. Raises SoakError when it is none."""
    try:
        head, *events = msgspec.json.Decoder(Head | Fault | Step).decode_lines(text)
    except (msgspec.DecodeError, ValueError) as error:
        raise SoakError(f"this is no plan: {error}") from error
    found = tuple(event for event in events if not isinstance(event, Head))
    if not isinstance(head, Head) or len(found) != len(events):
        raise SoakError("this is no plan: only its first line tells seed, minutes and pods")
    return Plan(head, found)


def read(path: Path) -> Plan:
    """A plan that was saved. Raises SoakError."""
    try:
        return parse(path.read_bytes())
    except OSError as error:
        raise SoakError(f"the plan cannot be read: {error}") from error


def make(seed: int, minutes: float, pods: int) -> Plan:
    """The plan of a seed."""
    seconds = minutes * 60
    steps = _steps(random.Random(f"{seed} steps"), seconds, pods)
    faults = _faults(random.Random(f"{seed} faults"), seconds)
    # Steps come first where both are due: what a user asks for in that moment meets the fault.
    events: list[Event] = [*steps, *faults]
    events.sort(key=lambda event: event.at)
    return Plan(Head(seed, minutes, pods), tuple(events))


def wanted(steps: Iterable[Step]) -> dict[str, Step]:
    """The workloads that are there in the end, by name: each as it was created, with the pods that it has last."""
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
    """How many claims are made at most, by all pods of all workloads that have some."""
    most: dict[str, int] = {}
    having = set()
    for step in steps:
        if step.claims:
            having.add(step.name)
        if step.name in having:
            most[step.name] = max(most.get(step.name, 0), step.pods)
    return sum(most.values())


# What may happen to what, and how often beside the others.
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
    """Faults in random order; nothing has two at a time, and of two agents of a cluster one is left alone."""
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
    """Short ones are as likely as long ones: each doubling of the length as much as the next."""
    most = max(SHORTEST_SECONDS, min(LONGEST_SECONDS, left * SETTLE_SHARE))
    length = SHORTEST_SECONDS * (most / SHORTEST_SECONDS) ** chance.random()
    return 0.0 if what == "restart" else length


def _steps(chance: random.Random, seconds: float, pods: int) -> Iterator[Step]:
    """Workloads come to be until there are so many pods, then come, change and go."""
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
