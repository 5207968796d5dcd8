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

    def put(kind: str, item: T | BaseException | None) -> bool:
        while not enough.is_set():
            try:
                waiting.put((kind, item), timeout=0.1)
            except queue.Full:
                continue
            return True
        return False

    def work() -> None:
        try:
            for item in items:
                if not put("item", item):
                    return
            put("end", None)
        except BaseException as error:  # handed over, not lost
            put("error", error)

    reader = threading.Thread(target=work, name="dynid reads ahead", daemon=True)
    reader.start()
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
        reader.join()
