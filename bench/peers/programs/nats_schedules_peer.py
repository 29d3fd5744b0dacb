"""NATS's own message schedules: the server publishes a message to its target at its time. No history, no retries
beyond redelivery. Synced always, as waterclock's log is."""

import asyncio
import json
import signal
import sys
import time
from datetime import UTC, datetime

import nats
import record

_STREAM = {
    "name": "SCHEDULES",
    "subjects": ["schedules.>", "due"],
    "storage": "file",
    "retention": "limits",
    "allow_msg_schedules": True,
    "allow_msg_ttl": True,
}


async def prepare():
    client = await nats.connect(record.SERVER)
    answer = await client.request("$JS.API.STREAM.CREATE.SCHEDULES", json.dumps(_STREAM).encode(), timeout=10)
    said = json.loads(answer.data)
    if "error" in said:
        raise SystemExit(f"no message schedules: {said['error']}")
    await client.close()


async def submit():
    numbers, at = record.arguments()
    client = await nats.connect(record.SERVER)
    stream = client.jetstream()
    record.begin()
    for chunk in record.chunks(numbers):
        due = datetime.fromtimestamp(at or time.time(), UTC).isoformat().replace("+00:00", "Z")
        headers = {"Nats-Schedule": f"@at {due}", "Nats-Schedule-Target": "due"}
        await asyncio.gather(
            *(
                stream.publish(f"schedules.{number}", f"{number} {record.PAYLOAD}".encode(), headers=headers)
                for number in chunk
            )
        )
    await client.close()


async def work():
    stop = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
    client = await nats.connect(record.SERVER)
    subscription = await client.jetstream().pull_subscribe("due", durable="worker", stream="SCHEDULES")
    while not stop.is_set():
        try:
            messages = await subscription.fetch(500, timeout=0.5)
        except TimeoutError:
            continue
        for message in messages:
            record.ran(int(message.data.partition(b" ")[0]))
            await message.ack()
    await client.close()


if __name__ == "__main__":
    import uvloop

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run({"prepare": prepare, "work": work, "submit": submit}[sys.argv[1]]())
