"""Run of all manifests, several at a time; manifests with a common cluster-wide name wait for each other."""

import asyncio
from collections.abc import Callable, Sequence

from agent.kube.errors import KubeError
from hack.lab.benchmarks.errors import BenchError
from hack.lab.corpus.errors import CorpusError
from hack.lab.corpus.files import File
from hack.lab.corpus.ground import Ground
from hack.lab.corpus.trial import PATIENCE_SECONDS, Result, trial

SIDE_BY_SIDE = 6


async def run(
    ground: Ground,
    files: Sequence[File],
    note: Callable[[Result], None],
    *,
    side_by_side: int = SIDE_BY_SIDE,
    patience: float = PATIENCE_SECONDS,
) -> list[Result]:
    """Return a result for each file, in order. Calls `note` with each result as soon as the trial ends."""
    taken: set[str] = set()
    free = asyncio.Condition()
    slots = asyncio.Semaphore(side_by_side)

    async def one(file: File) -> Result:
        async with free:
            await free.wait_for(lambda: not taken & file.claims)
            taken.update(file.claims)
        try:
            async with slots:
                result = await _tried(ground, file, patience)
        finally:
            async with free:
                taken.difference_update(file.claims)
                free.notify_all()
        note(result)
        return result

    return list(await asyncio.gather(*(one(file) for file in files)))


async def _tried(ground: Ground, file: File, patience: float) -> Result:
    """Return the result of a trial; a failed trial counts as a difference."""
    try:
        return await trial(ground, file, patience)
    except (BenchError, CorpusError, KubeError) as error:
        return Result(file, [f"could not be compared: {error}"])
