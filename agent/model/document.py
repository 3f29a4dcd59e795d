"""Documents that users and peers put into annotations: JSON, else YAML as Go's strict readers take it.

PyYAML is imported only when something is not JSON: it costs more than everything else we do to a pod (ruling 7).
"""

from typing import Any

import msgspec


class InvalidDocument(ValueError):
    """Text that is neither JSON nor YAML without surprises; the message says where."""


LIMIT = 100_000
"""Values in a document with its aliases written out, so that a few lines of them cannot fill the memory."""


def read(text: str) -> Any:
    """The value of a JSON or YAML document.

    :raises InvalidDocument: if it is neither, is nested too deeply, has a key twice, or is too large written out
    """
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return _read_yaml(text)


def _read_yaml(text: str) -> Any:
    import yaml

    from agent.model._yaml import Loader

    try:
        value = yaml.load(text, Loader)
    except RecursionError as error:
        raise InvalidDocument("it is nested too deeply") from error
    except (yaml.YAMLError, ValueError) as error:
        raise InvalidDocument(" ".join(str(error).split())) from error
    _check_size(value)
    return value


def _check_size(value: Any) -> None:
    waiting = [value]
    for _ in range(LIMIT):
        if not waiting:
            return
        last = waiting.pop()
        if isinstance(last, dict):
            waiting.extend(last.values())
        elif isinstance(last, list):
            waiting.extend(last)
    raise InvalidDocument(f"it has more than {LIMIT} values with its aliases written out")
