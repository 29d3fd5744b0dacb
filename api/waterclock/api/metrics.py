"""What the api counts of itself."""

from prometheus_client import Counter, Gauge, Histogram

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)

REQUESTS = Counter(
    "waterclock_api_requests",
    "Requests answered, by method, way in and status.",
    ("method", "face", "status"),
)
SECONDS = Histogram(
    "waterclock_api_request_seconds", "Time from request to answer.", ("method",), buckets=_SECONDS
)
STREAMS = Gauge("waterclock_api_streams", "Streaming calls that are open.", ("method",))
CUT_OFF = Counter(
    "waterclock_api_cut_off",
    "Connections that were ended because of what they sent, by why: a head too large or slow, a body too slow,"
    " or there are too many.",
    ("why",),
)
ADMISSIONS = Counter(
    "waterclock_api_admissions",
    "Calls that create something: admitted, or refused because the system is behind (saturated) or has too much to read"
    " (unread).",
    ("result",),
)
ACCEPTED = Counter("waterclock_api_accepted_jobs", "Definitions that entered the log.")
