"""What every peer's program shares: where its server is, and the file in which a job notes that it ran.

Used inside the peers' own environments, so it needs nothing but Python.
"""

import os
import struct
import sys
import time

SERVER = os.environ.get("BENCH_SERVER", "")
PAYLOAD = "x" * 200
CHUNK = 1000

_file = -1


def ran(number):
    """Sixteen bytes: which job, and when."""
    global _file
    if _file < 0:
        _file = os.open(os.environ["BENCH_RECORD"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    os.write(_file, struct.pack("<qd", number, time.time()))


def arguments():
    """`submit COUNT FIRST [AT]`: the numbers of the jobs, and when they are due (None: now)."""
    count, first = int(sys.argv[2]), int(sys.argv[3])
    at = float(sys.argv[4]) if len(sys.argv) > 4 else None
    return range(first, first + count), at


def begin():
    """Tell that all is imported and connected: from now on it counts. With the CPU seconds used until then."""
    times = os.times()
    print(time.time(), times.user + times.system, flush=True)


def chunks(numbers):
    for start in range(0, len(numbers), CHUNK):
        yield numbers[start : start + CHUNK]


def become(*argv):
    """Be another program of this environment from now on."""
    program = os.path.join(os.path.dirname(sys.executable), argv[0])
    os.execv(program, [program, *argv[1:]])
