"""Messages are decoded into hundreds of thousands of objects, hardly one of them part of a cycle. Looking for cycles
among them all the time cost 15 % of a rebuild, and a fifth of a scheduler under load."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

_ALLOCATIONS = 200_000


@contextmanager
def rarely_searched() -> Iterator[None]:
    """Within the scope the collector looks for cycles only now and then, and never among what is there already."""
    threshold = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(_ALLOCATIONS, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*threshold)
        gc.unfreeze()
