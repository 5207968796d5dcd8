"""Reading ahead: the next chunks are read by a thread while the last ones are worked on."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import TypeVar

T = TypeVar("T")
CHUNKS = 4


def read_ahead(items: Iterator[T], most: int = CHUNKS) -> Iterator[T]:
    """Yield the same items in order; at most `most` of them wait. Errors arrive where they would have."""
    waiting: queue.Queue[tuple[str, T | BaseException | None]] = queue.Queue(most)
    enough = threading.Event()

    def work() -> None:
        try:
            for item in items:
                waiting.put(("item", item))
                if enough.is_set():
                    return
            waiting.put(("end", None))
        except BaseException as error:  # handed over, not lost
            waiting.put(("error", error))

    threading.Thread(target=work, name="dynid reads ahead", daemon=True).start()
    try:
        while True:
            kind, item = waiting.get()
            if kind == "end":
                return
            if kind == "error":
                assert isinstance(item, BaseException)
                raise item
            yield item  # type: ignore[misc]
    finally:
        enough.set()
        while not waiting.empty():  # a reader that waits for room goes on, sees that it is enough, and ends
            waiting.get_nowait()
