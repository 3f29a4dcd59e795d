"""CEL expressions: compiled with a check of types and names; those of Placements are evaluated for ManagedClusters.

Only this module imports the library, with the first expression. The library supports no custom types. Expressions
are therefore checked in one environment, with a type for quantities, and run in another, where quantities are maps.
Its limits: 10,000 iterations of an expression for one cluster, and 32 levels of nesting.
"""

import functools
import importlib.util
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from agent.ranking.placing.celfunctions import FUNCTIONS, LACKING, Signature
from agent.ranking.placing.celmessages import as_reference

Scores = Mapping[str, Sequence[tuple[str, int]]]
"""Unexpired scores of one cluster, by the name of their AddOnPlacementScore."""

_Paths = tuple[tuple[str, ...], ...]
"""First one or two names of field paths. Longer ones come first, so that a whole field replaces its parts."""

REMEDY = "CEL expressions need the library cel-expr-python: install flotilla[cel]"
_LIBRARY = "cel_expr_python"
_PROGRAMS = 512
_EXTENDED = ("indexOf", "lastIndexOf")

_CLUSTER = re.compile(r"\bmanagedCluster\b((?:\s*\.\s*[A-Za-z_]\w*)*)\s*(\()?", re.ASCII)
_SCORES = re.compile(r"\.\s*scores\s*\(\s*(?:\"([^\"\\]*)\"|'([^'\\]*)')?\s*(\))?")
_STATUS = re.compile(r"\A[A-Z_]+: (.*?)(?: \[[A-Z_]+\])?\Z", re.DOTALL)
_UNDECLARED = re.compile(r"undeclared reference to '([\w.]+)'")


class InvalidExpression(Exception):
    """An expression that cannot be used. For an unknown name the message is that of cel-go."""


class Question(msgspec.Struct):
    """Request to a worker: for which clusters is an expression true?"""

    expression: str
    clusters: list[bytes]
    """ManagedClusters as JSON."""
    scores: list[dict[str, tuple[tuple[str, int], ...]]]
    """Scores of each cluster in `clusters`; empty if the expression uses none."""


class Answer(msgspec.Struct):
    """Response of a worker: the error of an expression, or for each cluster whether it is true."""

    error: str = ""
    matches: list[bool] = []


def missing() -> str:
    """Return how to install the library; empty if it is installed."""
    return "" if importlib.util.find_spec(_LIBRARY) else REMEDY


def scores_named(expression: str) -> frozenset[str] | None:
    """Return the AddOnPlacementScores that an expression may use; None if that is known only when it runs."""
    found = [double or single if end else "" for double, single, end in _SCORES.findall(expression)]
    return None if "" in found else frozenset(found)


def answer(request: bytes) -> bytes:
    """Answer a Question in a worker."""
    question = msgspec.msgpack.decode(request, type=Question)
    try:
        program = compile_expression(question.expression)
    except InvalidExpression as error:
        return msgspec.msgpack.encode(Answer(str(error)))
    scores: Sequence[Scores] = question.scores or [{}] * len(question.clusters)
    pairs = zip(question.clusters, scores, strict=True)
    return msgspec.msgpack.encode(Answer(matches=[program.matches(cluster, its) for cluster, its in pairs]))


@functools.lru_cache(maxsize=_PROGRAMS)
def compile_expression(expression: str) -> "Program":
    """Compile an expression.

    :raises InvalidExpression: if it is invalid, or the library is missing
    """
    environment = _environment()
    return Program(environment, environment.compile(expression), _read_by(expression))


class Program:
    """A compiled expression."""

    def __init__(self, environment: "Clusters", compiled: Any, paths: _Paths | None) -> None:
        self._environment = environment
        self._compiled = compiled
        self._paths = paths

    def matches(self, cluster: bytes, scores: Scores) -> bool:
        """Return True if the expression is true for a cluster; False if it fails or returns no bool."""
        environment = self._environment
        whole = _with_defaults(msgspec.json.decode(cluster))
        seen = whole if self._paths is None else _part(whole, self._paths)
        environment.name, environment.scores = whole["metadata"].get("name"), scores
        try:
            return environment.evaluate(self._compiled, {"managedCluster": seen}) is True
        except InvalidExpression:
            return False


class Environment:
    """Environments of expressions with certain variables: one for the check, one for running.

    The types of variables are words as in a Signature.
    """

    def __init__(self, variables: Mapping[str, str], functions: Sequence[Signature] = ()) -> None:
        """:raises InvalidExpression: if the library is missing"""
        try:
            self._cel = cel = importlib.import_module(f"{_LIBRARY}.cel")
            strings = importlib.import_module(f"{_LIBRARY}.ext.ext_strings").ExtStrings()
            optional = importlib.import_module(f"{_LIBRARY}.ext.ext_optional").ExtOptional()
        except ImportError as error:
            raise InvalidExpression(REMEDY) from error
        signatures = (*FUNCTIONS, *functions)

        def environment(types: _Types) -> Any:
            # The library accepts more overloads of its own functions only from an extension, which has no custom types.
            more = [each for each in signatures if each.name in _EXTENDED]
            own = [each for each in signatures if each.name not in _EXTENDED]
            last = cel.CelExtension("flotilla", types.declarations(more))
            declared = {name: types.type(word) for name, word in variables.items()}
            return cel.NewEnv(
                variables=declared, extensions=[strings, optional, last], functions=types.declarations(own)
            )

        self._checking = environment(_Types(cel))
        self._running = environment(_Kinds(cel))

    def compile(self, expression: str) -> Any:
        """Return a compiled expression.

        :raises InvalidExpression: if it is invalid
        """
        try:
            checked = self._checking.compile(expression)
        except RuntimeError as error:
            raise InvalidExpression(f"compilation failed: {_reason(error, expression)}") from None
        try:
            return self._running.deserialize(checked.serialize())
        except RuntimeError as error:
            raise InvalidExpression(f"instantiation failed: {_reason(error, expression)}") from None

    def evaluate(self, compiled: Any, variables: Mapping[str, Any]) -> Any:
        """Return the result of an expression if it is a bool or a string, else None.

        :raises InvalidExpression: if it fails
        """
        try:
            result = compiled.eval(self._running.Activation(dict(variables)))
        except RuntimeError as error:
            raise InvalidExpression(_reason(error, "")) from None
        if result.type() == self._cel.Type.ERROR:
            raise InvalidExpression(str(result.value()).partition(": ")[2])
        known = (self._cel.Type.BOOL, self._cel.Type.STRING)
        return result.value() if result.type() in known else None


class Clusters(Environment):
    """Environment of expressions about a ManagedCluster."""

    def __init__(self) -> None:
        self.name: str | None = None
        self.scores: Scores = {}
        """Scores of the cluster that an expression is evaluated for, whose name is `name`."""
        scores = Signature("scores", ("map<dyn,dyn>", "string"), "list<dyn>", self._scores)
        super().__init__({"managedCluster": "map<string,dyn>"}, (scores,))

    def _scores(self, cluster: Mapping[str, Any], resource: str) -> list[dict[str, object]]:
        if cluster["metadata"]["name"] != self.name:
            raise ValueError("failed to get score: it is not of this cluster")
        if resource not in self.scores:
            raise ValueError(f'failed to get score: addonplacementscore "{resource}" not found')
        return [{"name": name, "value": value} for name, value in self.scores[resource]]


class _Types:
    """Types for the check of expressions."""

    def __init__(self, cel: Any) -> None:
        self._cel = cel

    def type(self, word: str) -> Any:
        """Return the CEL type of a word in a Signature."""
        outer, _, inner = word.rstrip(">").partition("<")
        types = self._cel.Type
        if outer == "list":
            return types.List(self.type(inner))
        if outer == "map":
            return types.Map(*map(self.type, inner.split(",")))
        return getattr(types, outer.upper()) if outer.islower() else self.made(f"kubernetes.{outer}")

    def made(self, name: str) -> Any:
        """Return the type of a kind that CEL lacks."""
        return self._cel.Type.AbstractType(name)

    def parameters(self, signature: Signature) -> list[tuple[str, ...]]:
        """Return the argument types with which a function is declared."""
        return [signature.parameters]

    def result(self, signature: Signature) -> Any:
        """Return the result type of a function."""
        return self.type(signature.returns)

    def declarations(self, signatures: Sequence[Signature]) -> list[Any]:
        """Return declarations of all functions with their overloads."""
        overloads: dict[str, dict[tuple[Any, ...], Any]] = {}
        for signature in signatures:
            for words in self.parameters(signature):
                types = [self.type(word) for word in words]
                key = (signature.member, *(each.name() for each in types))
                overloads.setdefault(signature.name, {}).setdefault(
                    key,
                    self._cel.Overload(
                        "_".join((signature.name, *(["member"] if signature.member else []), *words)),
                        return_type=self.result(signature),
                        parameters=types,
                        is_member=signature.member,
                        impl=signature.function,
                    ),
                )
        return [self._cel.FunctionDecl(name, list(found.values())) for name, found in overloads.items()]


class _Kinds(_Types):
    """Types when an expression runs: lists and maps are not distinguished by element type."""

    _ANY = ("int", "uint", "double", "bool", "string", "bytes", "duration", "timestamp", "list", "map")

    def type(self, word: str) -> Any:
        outer = word.partition("<")[0]
        return getattr(self._cel.Type, outer.upper()) if outer.islower() else self.made(outer)

    def made(self, name: str) -> Any:
        return self._cel.Type.MAP

    def result(self, signature: Signature) -> Any:
        return self._cel.Type.DYN

    def parameters(self, signature: Signature) -> list[tuple[str, ...]]:
        if "dyn" not in signature.parameters:
            return [signature.parameters]
        return [tuple(kind if word == "dyn" else word for word in signature.parameters) for kind in self._ANY]


@functools.cache
def _environment() -> Clusters:
    return Clusters()


def _reason(error: Exception, expression: str) -> str:
    """Return the error without the library's own status; name functions that are known to be missing."""
    match = _STATUS.match(str(error))
    reason = as_reference(match[1] if match else str(error), expression)
    lacking = sorted(LACKING.intersection(_UNDECLARED.findall(reason)))
    return f"{reason}\n{', '.join(lacking)}: not in Flotilla's environment of CEL" if lacking else reason


def _read_by(expression: str) -> _Paths | None:
    """Return the fields that an expression may read; None for all of them."""
    found = set()
    for path, call in _CLUSTER.findall(expression):
        names = re.findall(r"\w+", path)
        method = names.pop() if call and names else ""
        if not names and method == "scores":
            names = ["metadata", "name"]
        if not names:
            return None
        found.add(tuple(names[:2]))
    return tuple(sorted(found, key=len, reverse=True))


def _part(cluster: Mapping[str, Any], paths: _Paths) -> dict[str, Any]:
    """Return the cluster with some of its fields only: conversion of all fields dominates the cost."""
    part: dict[str, Any] = {}
    for first, *second in paths:
        value = cluster.get(first)
        if not second or not isinstance(value, dict):
            if first in cluster:
                part[first] = value
            continue
        inner = part.setdefault(first, {})
        if second[0] in value:
            inner[second[0]] = value[second[0]]
    return part


def _with_defaults(cluster: dict[str, Any]) -> dict[str, Any]:
    """Add the fields that are never missing in the reference implementation."""
    cluster.setdefault("metadata", {})
    cluster.setdefault("spec", {}).setdefault("hubAcceptsClient", False)
    cluster.setdefault("status", {}).setdefault("version", {})
    cluster["status"].setdefault("conditions", None)
    return cluster
