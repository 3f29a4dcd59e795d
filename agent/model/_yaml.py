"""YAML as JSON has it: strings as keys and none twice, no dates, no merge keys, no numbers to the base of 60, no tags.

Values are made of the parser's events, in time proportional to the text: PyYAML's own constructor takes ten times as
long, and reads some numbers in quadratic time. libyaml is used where PyYAML has it.
"""

import re
from collections.abc import Iterator
from typing import Any, NoReturn

import yaml

HAS_LIBYAML: bool = yaml.__with_libyaml__

_PARSER: Any = yaml.CSafeLoader if HAS_LIBYAML else yaml.SafeLoader
_TAG = "tag:yaml.org,2002:"
_DEPTH = 100
_LONGEST_NUMBER = 64
"""Characters of a number; what looks like a longer one is text."""
_SHOWN = 80
_WORDS: dict[str, Any] = dict.fromkeys(("", "~", "null", "Null", "NULL"))
for _word, _value in (("yes", True), ("no", False), ("true", True), ("false", False), ("on", True), ("off", False)):
    _WORDS |= dict.fromkeys((_word, _word.capitalize(), _word.upper()), _value)
_INTEGER = re.compile(r"[-+]?(?:0b[01_]+|0[0-7_]+|0|[1-9][0-9_]*|0x[0-9a-fA-F_]+)", re.ASCII)
_FLOAT = re.compile(r"[-+]?(?:[0-9][0-9_]*\.[0-9_]*|\.[0-9][0-9_]*)(?:[eE][-+][0-9]+)?", re.ASCII)
_NO_JSON = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", re.ASCII)
_MERGE = "<<"


class Unusable(ValueError):
    """Text that is not such YAML. `reason` says why and where without a word of the text, `shown` has one."""

    def __init__(self, reason: str, line: int, shown: str = "") -> None:
        self.reason = f"{reason} (line {line + 1})"
        super().__init__(f"{self.reason}: {shown}" if shown else self.reason)


class _Collection:
    """A list or object under construction."""

    __slots__ = ("anchor", "key", "value", "weight")

    def __init__(self, value: Any, anchor: str | None) -> None:
        self.value = value
        self.anchor = anchor
        self.key: str | None = None
        """Of an object: the key whose value comes next, None where a key is next."""
        self.weight = 1


class _Builder:
    """Makes a value of events; `limit` is how many characters and values it may have with its aliases written out."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._total = 0
        self._open: list[_Collection] = []
        self._anchors: dict[str, tuple[Any, int]] = {}
        self.value: Any = None

    def take(self, event: Any) -> None:
        """The next event of a document."""
        match event:
            case yaml.ScalarEvent():
                self._scalar(event)
            case yaml.MappingStartEvent():
                self._start(event, {}, "map")
            case yaml.SequenceStartEvent():
                self._start(event, [], "seq")
            case yaml.MappingEndEvent() | yaml.SequenceEndEvent():
                self._end(event)
            case yaml.AliasEvent():
                self._alias(event)
            case _:
                pass

    def _scalar(self, event: Any) -> None:
        if self._wants_key:
            self._key(event, _scalar(event))
            return
        value, weight = _scalar(event), 1 + len(event.value)
        if event.anchor is not None:
            self._anchors[event.anchor] = (value, weight)
        self._put(event, value, weight)

    @property
    def _wants_key(self) -> bool:
        return bool(self._open) and self._open[-1].key is None and isinstance(self._open[-1].value, dict)

    def _key(self, event: Any, key: Any) -> None:
        parent = self._open[-1]
        if not isinstance(key, str) or (key == _MERGE and event.implicit[0]):
            _fail("a key is not a string", event)
        if key in parent.value:
            _fail("a key is there twice", event, repr(key[:_SHOWN]))
        parent.key = key
        self._weigh(event, len(key))

    def _start(self, event: Any, value: Any, tag: str) -> None:
        if self._wants_key:
            _fail("a key is not a string", event)
        if event.tag not in (None, "!", _TAG + tag):
            _fail("a tag is not allowed", event, event.tag[:_SHOWN])
        if len(self._open) == _DEPTH:
            _fail("it is nested too deeply", event)
        if event.anchor is not None:
            self._anchors.pop(event.anchor, None)
        self._open.append(_Collection(value, event.anchor))

    def _end(self, event: Any) -> None:
        done = self._open.pop()
        if done.anchor is not None:
            self._anchors[done.anchor] = (done.value, done.weight)
        self._put(event, done.value, done.weight, counted=True)

    def _alias(self, event: Any) -> None:
        if self._wants_key:
            _fail("a key is not a string", event)
        found = self._anchors.get(event.anchor)
        if found is None:
            _fail("an alias stands for nothing, or for what it is a part of: it cannot be written out", event)
        self._put(event, *found)

    def _put(self, event: Any, value: Any, weight: int, *, counted: bool = False) -> None:
        if not self._open:
            self.value = value
            return
        parent = self._open[-1]
        if isinstance(parent.value, list):
            parent.value.append(value)
        else:
            parent.value[parent.key] = value
            parent.key = None
        if counted:
            parent.weight += weight
        else:
            self._weigh(event, weight)

    def _weigh(self, event: Any, weight: int) -> None:
        self._open[-1].weight += weight
        self._total += weight
        if self._total > self._limit:
            _fail(f"it has more than {self._limit} characters and values with its aliases written out", event)


def load(text: str, limit: int) -> Any:
    """The value of a document.

    :param limit: of characters and values with its aliases written out
    :raises Unusable: if it is not YAML as JSON has it
    """
    builder = _Builder(limit)
    documents = 0
    try:
        for event in _events(text):
            if isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    _fail("there is more than one document", event)
            builder.take(event)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        raise Unusable("it is not YAML", mark.line if mark else 0, " ".join(str(error).split())) from error
    except (yaml.YAMLError, UnicodeError) as error:
        raise Unusable("it is not YAML", 0, " ".join(str(error).split())[:_SHOWN]) from error
    return builder.value


def _events(text: str) -> Iterator[Any]:
    parser = _PARSER(text)
    try:
        while parser.check_event():
            yield parser.get_event()
    finally:
        parser.dispose()


def _scalar(event: Any) -> Any:
    text: str = event.value
    tag = event.tag if event.tag != "!" else None
    if tag == _TAG + "str" or (tag is None and not event.implicit[0]):
        return text
    value = _plain(event, text)
    if tag is not None and tag != _TAG + _KINDS.get(type(value), ""):
        _fail("a tag is not allowed", event, tag[:_SHOWN])
    return value


_KINDS: dict[type, str] = {int: "int", float: "float", bool: "bool", type(None): "null"}


def _plain(event: Any, text: str) -> Any:
    """Value of a text without quotes."""
    if text in _WORDS:
        return _WORDS[text]
    if text[0] not in "-+.0123456789" or len(text) > _LONGEST_NUMBER:
        return text
    if _INTEGER.fullmatch(text):
        return _integer(text.replace("_", ""))
    if _FLOAT.fullmatch(text):
        return float(text.replace("_", ""))
    if _NO_JSON.fullmatch(text):
        _fail("a number is none that JSON has", event, text)
    return text


def _integer(text: str) -> int:
    digits = text.lstrip("-+")
    sign = -1 if text[0] == "-" else 1
    if digits[:2] in ("0b", "0x"):
        return sign * int(digits[2:] or "0", 2 if digits[1] == "b" else 16)
    return sign * int(digits, 8 if digits[0] == "0" else 10)


def _fail(reason: str, event: Any, shown: str = "") -> NoReturn:
    raise Unusable(reason, event.start_mark.line, shown)
