"""Settings of a process: fields of dataclasses, each a flag, an environment variable and a default.

A flag wins over its variable, and that over the default; a variable that is empty counts as one that is not set.
"""

import argparse
import dataclasses
import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from agent.base.flag_values import SWITCH, Form

T = TypeVar("T")

PREFIX = "FLOTILLA_"
"""Prefix of environment variables."""
DURATIONS = "Durations are written as Kubernetes does (60s, 1m30s, 100ms, 24h), or as numbers of seconds."
_KEY = "flag"


class InvalidSetting(ValueError):
    """A setting that cannot be used; the message names it, its value and the remedy."""


@dataclass(frozen=True, slots=True)
class Flag:
    """Form and help of a setting."""

    form: Form[Any]
    default: str
    help: str
    repeated: bool = False
    instead_of: str = ""
    """A field whose environment variables are ignored if this flag is on the command line."""


@dataclass(frozen=True, slots=True)
class Named:
    """A flag with the field that holds its value."""

    field: str
    flag: Flag

    @property
    def option(self) -> str:
        """Return the flag without leading dashes."""
        return self.field.replace("_", "-")

    @property
    def spellings(self) -> tuple[str, ...]:
        """Return the spellings of the flag; a switch has two."""
        return (f"--{self.option}", f"--no-{self.option}") if self.flag.form is SWITCH else (f"--{self.option}",)

    def variables(self, prefixes: Sequence[str] = (PREFIX,)) -> tuple[str, ...]:
        """Return its environment variables; the first that is set counts."""
        return tuple(prefix + self.field.upper() for prefix in prefixes)


def flag(form: Form[T], default: str, text: str) -> T:
    """A setting; its default is written as a user would."""
    return cast("T", _field(form.read(default), Flag(form, default, text)))


def optional(form: Form[T], text: str, *, instead_of: str = "") -> T | None:
    """A setting that is None unless it is given."""
    return cast("T | None", _field(None, Flag(form, "", text, instead_of=instead_of)))


def repeated(form: Form[T], text: str) -> tuple[T, ...]:
    """A setting that may be given several times; in a variable, commas stand between its values."""
    declared = Flag(form, "", text + " (repeat the flag; commas in the variable)", repeated=True)
    return cast("tuple[T, ...]", _field((), declared))


def _field(default: Any, declared: Flag) -> Any:
    return dataclasses.field(default=default, metadata={_KEY: declared})


def topics(settings: type) -> Iterator[tuple[str, list[Named]]]:
    """Return flags by the dataclasses that declare them, with the first line of each docstring."""
    for topic in reversed(settings.__mro__):
        named = [
            Named(field.name, field.metadata[_KEY])
            for field in (dataclasses.fields(topic) if dataclasses.is_dataclass(topic) else ())
            if field.name in inspect.get_annotations(topic) and _KEY in field.metadata
        ]
        if named:
            yield (topic.__doc__ or "").splitlines()[0].rstrip("."), named


def flags(settings: type) -> list[Named]:
    """Return all flags."""
    return [named for _, found in topics(settings) for named in found]


def parse(
    settings: type[T],
    arguments: Sequence[str],
    environ: Mapping[str, str] = os.environ,
    *,
    program: str,
    purpose: str,
    epilog: str = "",
    prefixes: Sequence[str] = (PREFIX,),
) -> T:
    """The settings of a process. Exits with usage when a flag is unknown. Raises InvalidSetting.

    :param prefixes: of environment variables, the first wins
    """
    parser = argparse.ArgumentParser(prog=program, description=purpose, epilog=epilog)
    for title, found in topics(settings):
        group = parser.add_argument_group(title)
        for named in found:
            _add(group, named, named.variables(prefixes))
    given = vars(parser.parse_args(arguments))
    known = flags(settings)
    silenced = {named.flag.instead_of for named in known if given[named.field] is not None}
    values = {}
    for named in known:
        variables = () if named.field in silenced else named.variables(prefixes)
        if (value := _value(named, given[named.field], variables, environ)) is not None:
            values[named.field] = value
    made = settings(**values)
    check(made)
    return made


def check(settings: object) -> None:
    """Have every topic judge its settings together: its method `check` raises InvalidSetting."""
    for topic in reversed(type(settings).__mro__):
        if rules := topic.__dict__.get("check"):
            rules(settings)


class _Switch(argparse.Action):
    """`--name`, `--no-name`, `--name=true` and `--name=false`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: str | Sequence[Any] | None,
        option_string: str | None = None,
    ) -> None:
        denied = (option_string or "").startswith("--no-")
        if denied and values is not None:
            parser.error(f"{option_string} takes no value: leave {values!r} out")
        setattr(namespace, self.dest, "false" if denied else "true" if values is None else cast("str", values))


def _add(group: Any, named: Named, variables: Sequence[str]) -> None:
    declared = named.flag
    default = f"; default {declared.default}" if declared.default else ""
    shown = f"{declared.help} [{' or '.join(f'${each}' for each in variables)}{default}]".replace("%", "%%")
    more: dict[str, Any] = {"action": "append"} if declared.repeated else {}
    if declared.form is SWITCH:
        more = {"action": _Switch, "nargs": "?"}
    group.add_argument(*named.spellings, dest=named.field, metavar=declared.form.metavar, help=shown, **more)


def _value(named: Named, given: Any, variables: Sequence[str], environ: Mapping[str, str]) -> Any:
    """Return the value of a flag or its variable; None if neither is set. Raises InvalidSetting."""
    source, texts = f"--{named.option}", given
    if given is None:
        source = next((each for each in variables if environ.get(each)), "")
        if not source:
            return None
        texts = environ[source]
        if named.flag.repeated:
            texts = [part.strip() for part in texts.split(",") if part.strip()]
    if named.flag.repeated:
        return tuple(_read(named, source, text) for text in texts)
    return _read(named, source, texts)


def _read(named: Named, source: str, text: str) -> Any:
    try:
        return named.flag.form.read(text)
    except ValueError as error:
        raise InvalidSetting(f"{source}={text}: {error}") from error
