"""Settings of a process: fields of dataclasses, each a flag, an environment variable and a default.

A flag wins over its variable, and that over the default; a variable that is empty counts as one that is not set.
Settings for experts share one flag, `--tuning NAME=VALUE`, and one variable. Flags and variables of their own, which
earlier versions had, still count, with a warning.
"""

import argparse
import dataclasses
import inspect
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar, cast

from agent.base import log, tuning
from agent.base.flag_values import SWITCH, Form
from agent.base.tuning import InvalidTuning

T = TypeVar("T")

PREFIX = "FLOTILLA_"
"""Prefix of environment variables."""
DURATIONS = "Durations are written as Kubernetes does (60s, 1m30s, 100ms, 24h), or as numbers of seconds."
TUNING = "tuning"
"""Flag of all settings for experts."""
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
    tuning: bool = False
    """A setting for experts, given as `--tuning NAME=VALUE`."""


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
    """Declare a setting; `default` has the form that users write."""
    return cast("T", _field(form.read(default), Flag(form, default, text)))


def tuned(form: Form[T], default: str, text: str) -> T:
    """Declare a setting for experts; `default` has the form that users write."""
    return cast("T", _field(form.read(default), Flag(form, default, text, tuning=True)))


def optional(form: Form[T], text: str, *, instead_of: str = "", expert: bool = False) -> T | None:
    """Declare a setting that is None unless the user sets it."""
    return cast("T | None", _field(None, Flag(form, "", text, instead_of=instead_of, tuning=expert)))


def repeated(form: Form[T], text: str, *, expert: bool = False) -> tuple[T, ...]:
    """A setting that may be given several times; in a variable, commas separate its values."""
    again = " (repeat it)" if expert else " (repeat the flag; commas in the variable)"
    return cast("tuple[T, ...]", _field((), Flag(form, "", text + again, repeated=True, tuning=expert)))


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


def experts(settings: type) -> list[Named]:
    """Return all settings for experts."""
    return [named for named in flags(settings) if named.flag.tuning]


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
        documented = any(not named.flag.tuning for named in found)
        group = parser.add_argument_group(title) if documented else parser
        for named in found:
            _add(group, named, named.variables(prefixes))
    known = flags(settings)
    variables = tuple(prefix + TUNING.upper() for prefix in prefixes)
    if any(named.flag.tuning for named in known):
        _add_tuning(parser, variables)
    given = vars(parser.parse_args(arguments))
    by_flag = _read_tuning(known, f"--{TUNING}", given.get(TUNING) or ())
    by_variable = _read_tuning(known, *_set_variable(variables, environ))
    silenced = {named.flag.instead_of for named in known if given[named.field] is not None}
    values = {}
    for named in known:
        own = () if named.field in silenced else named.variables(prefixes)
        flag, own_variable = _of_flag(named, given[named.field]), _of_variable(named, own, environ)
        # The first counts.
        if sources := [*by_flag.of(named), *flag, *by_variable.of(named), *own_variable]:
            values[named.field] = _value(named, *sources[0])
        if named.flag.tuning:
            _warn(named, [*flag, *own_variable])
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
    shown = argparse.SUPPRESS if declared.tuning else shown
    more: dict[str, Any] = {"action": "append"} if declared.repeated else {}
    if declared.form is SWITCH:
        more = {"action": _Switch, "nargs": "?"}
    group.add_argument(*named.spellings, dest=named.field, metavar=declared.form.metavar, help=shown, **more)


def _add_tuning(parser: argparse.ArgumentParser, variables: Sequence[str]) -> None:
    parser.add_argument(
        f"--{TUNING}",
        action="append",
        metavar="NAME=VALUE",
        help="a setting for experts, by its name in the table of the page Settings; repeat the flag, or separate by"
        f" commas [{' or '.join(f'${each}' for each in variables)}]",
    )


_Source = tuple[str, list[str]]
"""Flag or variable that sets a value, with the texts that it has."""


class _Tuned(NamedTuple):
    """Settings for experts in one flag or variable."""

    source: str
    texts: Mapping[str, list[str]]
    """Texts of each setting, by option."""

    def of(self, named: Named) -> list[_Source]:
        """Return the source of a setting; empty if it is not set here."""
        option = named.option
        return [(f"{self.source}={option}", self.texts[option])] if option in self.texts else []


def _read_tuning(known: Sequence[Named], source: str, texts: Sequence[str]) -> _Tuned:
    """Return the settings for experts in a flag or variable. Raises InvalidSetting."""
    try:
        found = tuning.read(
            texts,
            experts=[named.option for named in known if named.flag.tuning],
            others=[named.option for named in known if not named.flag.tuning],
        )
    except InvalidTuning as error:
        raise InvalidSetting(f"{source}={','.join(texts)}: {error}") from error
    return _Tuned(source, found)


def _of_flag(named: Named, given: Any) -> list[_Source]:
    if given is None:
        return []
    return [(f"--{named.option}", given if named.flag.repeated else [given])]


def _set_variable(variables: Sequence[str], environ: Mapping[str, str]) -> _Source:
    """Return the first variable that is set, with its text; empty without one."""
    variable = next((each for each in variables if environ.get(each)), "")
    return variable, [environ[variable]] if variable else []


def _of_variable(named: Named, variables: Sequence[str], environ: Mapping[str, str]) -> list[_Source]:
    variable, texts = _set_variable(variables, environ)
    if named.flag.repeated:
        texts = [part.strip() for text in texts for part in text.split(",") if part.strip()]
    return [(variable, texts)] if variable else []


def _warn(named: Named, sources: Sequence[_Source]) -> None:
    """Warn of a flag or variable of its own that a setting for experts had in earlier versions."""
    for source, _ in sources:
        log.warn_later(f"{source}: a later version will refuse this; use --{TUNING}={named.option}=VALUE")


def _value(named: Named, source: str, texts: Sequence[str]) -> Any:
    """Return the value of a setting. Raises InvalidSetting."""
    if named.flag.repeated:
        return tuple(_read(named, source, text) for text in texts)
    return _read(named, source, texts[-1])


def _read(named: Named, source: str, text: str) -> Any:
    try:
        return named.flag.form.read(text)
    except ValueError as error:
        raise InvalidSetting(f"{source}={text}: {error}") from error
