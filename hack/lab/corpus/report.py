"""Output of `hack/corpus`. Pure."""

from collections.abc import Mapping, Sequence

from hack.lab.corpus.trial import Result

_MOST_LINES = 8


def line(result: Result, expected: Mapping[str, str]) -> str:
    """Return the line for a manifest, followed by its differences."""
    if not result.unlike:
        waits = f"; not ready on a plain cluster either: {result.waits[0]}" if result.waits else ""
        return f"{result.file.name}  alike{waits}"
    reason = expected.get(result.file.name)
    head = f"{result.file.name}  {f'differs as expected: {reason}' if reason else 'differs'}"
    shown = [f"    {each}" for each in result.unlike[:_MOST_LINES]]
    if len(result.unlike) > _MOST_LINES:
        shown.append(f"    and {len(result.unlike) - _MOST_LINES} more")
    return "\n".join((head, *shown))


def table(results: Sequence[Result], expected: Mapping[str, str]) -> list[str]:
    """Return a line for each manifest, and the summary."""
    width = max((len(result.file.name) for result in results), default=0)
    lines = []
    for result in results:
        name, rest = line(result, expected).split("  ", 1)
        lines += f"{name.ljust(width)}  {rest}".splitlines()
    return [*lines, "", summary(results, expected)]


def summary(results: Sequence[Result], expected: Mapping[str, str]) -> str:
    """Return the number of manifests that are alike, and remarks on the others."""
    alike = [result for result in results if not result.unlike]
    parts = [f"{len(alike)} of {len(results)} alike"]
    if known := sum(1 for result in results if result.unlike and result.file.name in expected):
        parts.append(f"{known} differ as expected")
    if stale := [result.file.name for result in alike if result.file.name in expected]:
        parts.append(f"alike although not expected: {', '.join(stale)}")
    if waiting := sum(1 for result in alike if result.waits):
        parts.append(f"{waiting} of them not ready on a plain cluster either")
    if rewritten := sum(result.rewritten for result in results):
        parts.append(f"a second apply says `configured` of {rewritten} rerouted Services and bare pods")
    return "; ".join(parts)


def unexpected(results: Sequence[Result], expected: Mapping[str, str]) -> list[str]:
    """Return the names of manifests that differ without a reason in `expected`."""
    return [result.file.name for result in results if result.unlike and result.file.name not in expected]
