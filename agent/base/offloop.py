"""CPU-bound work in threads. The event loop continues while they run.

Python's threads share one interpreter lock: the loop waits for a few milliseconds at a time, and the work takes as much
CPU time as it would on the loop. The caller bounds the work itself, because a thread cannot be cancelled.

Work that is one long loop over many small items stays on the event loop and yields: `agent.base.yielding.in_turns`.
"""

import asyncio
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from typing import ParamSpec, TypeVar
from weakref import WeakValueDictionary

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 2
"""The second thread serves other tenants while a long piece of work occupies the first one."""

_executor = ThreadPoolExecutor(THREADS, thread_name_prefix="offloop")
_queues: "WeakValueDictionary[tuple[asyncio.AbstractEventLoop, Hashable], asyncio.Lock]" = WeakValueDictionary()


async def off_loop(tenant: Hashable, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Call a function in a thread, and return its result or raise its error.

    Each tenant has one piece of work in the threads at a time, so that a tenant with many pieces delays only itself.
    After a cancellation the function runs to its end, and the tenant's next piece waits for that end.

    :param tenant: usually the namespace of the object that the work is about
    :param function: reads its arguments only; nothing else may change these until it has returned
    """
    loop = asyncio.get_running_loop()
    queue = _queues.setdefault((loop, tenant), asyncio.Lock())
    await queue.acquire()
    try:
        work = loop.run_in_executor(_executor, lambda: function(*args, **kwargs))
    except BaseException:
        queue.release()
        raise
    work.add_done_callback(lambda _: queue.release())
    return await asyncio.shield(work)
