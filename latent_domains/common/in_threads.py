"""Work in threads whose results come in order."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

AHEAD = 16
"""How many items a thread may be ahead of the reader."""

T = TypeVar("T")
R = TypeVar("R")


def in_threads(function: Callable[[T], R], items: Iterable[T], jobs: int) -> Iterator[R]:
    """Yield what ``function`` returns for each item, in order, from ``jobs`` threads.

    No thread is more than AHEAD items ahead of the reader, so a slow reader does not fill the memory.
    """
    waiting: deque[Future[R]] = deque()
    pool = ThreadPoolExecutor(jobs)
    try:
        for item in items:
            waiting.append(pool.submit(function, item))
            if len(waiting) > AHEAD * jobs:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)
