"""How much memory the warden itself has used at most.

A new process starts out with our peak as its own, since it shares our pages until it becomes another program. What the
kernel reports for it says something only if it is more. (Our own `getrusage` does not tell: it has our parent's
peak in it, for the same reason.)
"""

import time

_FRESH_SECONDS = 10.0

_known = (0, -_FRESH_SECONDS)


def own_peak() -> int:
    """Bytes; a few seconds old is good enough."""
    global _known
    peak, at = _known
    now = time.monotonic()
    if now - at >= _FRESH_SECONDS:
        peak = _read()
        _known = peak, now
    return peak


def _read() -> int:
    with open("/proc/self/status") as status:
        for line in status:
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    return 0
