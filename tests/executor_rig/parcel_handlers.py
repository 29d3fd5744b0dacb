"""Handlers of a worker in a process of its own, for tests that kill or stop it in the middle of a parcel."""

import time
from pathlib import Path
from typing import Any

from waterclock.executor import Context, Worker

worker = Worker(slots=16)


@worker.handler("note")
def note(context: Context, payload: dict[str, Any]) -> None:
    """Notes that it ran; then waits for a file, if one is named."""
    with Path(payload["notes"]).open("a") as file:
        file.write(f"{context.run_id}\n")
    while "until" in payload and not Path(payload["until"]).exists():
        time.sleep(0.05)
