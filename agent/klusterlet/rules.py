"""Evaluates condition rules and feedback rules of ManifestWorks for an object, in a worker process. Pure."""

import functools
from collections.abc import Mapping
from typing import Any

import msgspec

from agent.api.conditions import is_true
from agent.klusterlet.feedback import Feedback, feedback
from agent.ranking.placing.celexpr import Environment, InvalidExpression
from agent.ranking.placing.celfunctions import Signature

COMPLETE = "Complete"
EVALUATED = "ConditionRuleEvaluated"
EXPRESSION_ERROR = "ConditionRuleExpressionError"
INTERNAL_ERROR = "ConditionRuleInternalError"
REASONS = frozenset((EVALUATED, EXPRESSION_ERROR, INTERNAL_ERROR, "ConditionRuleInvalid"))
"""Reasons of conditions that rules have set."""

_PROGRAMS = 512
_MOST = 100
"""Maximum number of rules and of expressions of one manifest."""
_LONGEST = 32_768
"""Maximum number of characters of a condition's message."""


class Found(msgspec.Struct):
    """A condition from a rule."""

    type: str
    status: str
    reason: str
    message: str


class Question(msgspec.Struct):
    """Request to a worker: the conditions and the values of an object by rules."""

    rules: list[dict[str, Any]]
    object: bytes
    """The object as JSON."""
    feedback: list[dict[str, Any]] = []


class Answer(msgspec.Struct):
    """Answer of a worker."""

    conditions: list[Found]
    feedback: Feedback


def answer(request: bytes) -> bytes:
    """Answer a Question in a worker."""
    question = msgspec.msgpack.decode(request, type=Question)
    obj = msgspec.json.decode(question.object)
    found = [evaluate(rule, obj) for rule in question.rules[:_MOST]]
    values = feedback(obj, question.feedback)
    return msgspec.msgpack.encode(Answer([each for each in found if each is not None], values))


def unanswered(rules: list[dict[str, Any]], reason: str) -> list[Found]:
    """Return the conditions of rules whose evaluation has exceeded a limit."""
    return [
        Found(_condition(rule), "False", EXPRESSION_ERROR, f"evaluation failed: {reason}") for rule in rules[:_MOST]
    ]


def evaluate(rule: Mapping[str, Any], obj: Mapping[str, Any]) -> Found | None:
    """Return the condition of a rule; None if a rule for well-known conditions meets a kind without any."""
    if rule.get("type") == "WellKnownConditions":
        return _well_known(rule, obj)
    try:
        result = all(_is_true(str(each), obj) for each in (rule.get("celExpressions") or ())[:_MOST])
    except InvalidExpression as error:
        return Found(_condition(rule), "False", EXPRESSION_ERROR, str(error)[:_LONGEST])
    return _found(rule, obj, result)


def _condition(rule: Mapping[str, Any]) -> str:
    return str(rule.get("condition") or COMPLETE)


def _well_known(rule: Mapping[str, Any], obj: Mapping[str, Any]) -> Found | None:
    status = obj.get("status") or {}
    of = (obj.get("apiVersion"), obj.get("kind"))
    if of == ("batch/v1", "Job"):
        conditions = status.get("conditions")
        result = is_true(conditions, "Complete") or is_true(conditions, "Failed")
        message = "Job is finished" if result else "Job is not finished"
    elif of == ("v1", "Pod"):
        phase = status.get("phase") or ""
        result, message = phase in ("Succeeded", "Failed"), f"Pod is in phase {phase}"
    else:
        return None
    if rule.get("message") or rule.get("messageExpression"):
        return _found(rule, obj, result)
    return Found(_condition(rule), str(result), EVALUATED, message)


def _found(rule: Mapping[str, Any], obj: Mapping[str, Any], result: bool) -> Found:
    type = _condition(rule)
    message = str(rule.get("message") or f"Manifest is {'' if result else 'not '}{type}")
    if expression := rule.get("messageExpression"):
        try:
            told = _value(expression, {"object": obj, "result": result}, with_result=True)
        except InvalidExpression as error:
            return Found(type, str(result), EVALUATED, str(error)[:_LONGEST])
        if not isinstance(told, str):
            message = "expected message expression to have a string result"
        else:
            message = told or message
    return Found(type, str(result), EVALUATED, message[:_LONGEST])


def _is_true(expression: str, obj: Mapping[str, Any]) -> bool:
    result = _value(expression, {"object": obj}, with_result=False)
    if not isinstance(result, bool):
        raise InvalidExpression("expected bool result")
    return result


def _value(expression: str, variables: Mapping[str, Any], *, with_result: bool) -> Any:
    return _environment(with_result=with_result).evaluate(_program(expression, with_result=with_result), variables)


@functools.lru_cache(maxsize=_PROGRAMS)
def _program(expression: str, *, with_result: bool) -> Any:
    return _environment(with_result=with_result).compile(expression)


@functools.cache
def _environment(*, with_result: bool) -> Environment:
    has_conditions = Signature("hasConditions", ("dyn",), "bool", _has_conditions, member=False)
    variables = {"object": "map<string,dyn>"} | ({"result": "bool"} if with_result else {})
    return Environment(variables, (has_conditions,))


def _has_conditions(status: object) -> bool:
    return isinstance(status, Mapping) and bool(status.get("conditions"))
