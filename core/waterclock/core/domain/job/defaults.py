"""The very objects that are a definition's defaults: only those are left out when it is written to the log."""

from waterclock.proto.spec import Handler, JobSpec

_SPEC = JobSpec(name="", task=Handler(handler=""))

SCHEDULE = _SPEC.schedule
CATCH_UP = _SPEC.catch_up
RETRY = _SPEC.retry
