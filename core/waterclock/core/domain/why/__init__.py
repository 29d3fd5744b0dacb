"""Why a run is as it is, and why a moment had none: the chain of events, in words and as numbers.

Pure: the events come in, an `Explanation` goes out.
"""

from waterclock.core.domain.why.explanation import Definition, Delay, Explanation, Step
from waterclock.core.domain.why.moment import of_moment
from waterclock.core.domain.why.record import JobHistory, Recorded
from waterclock.core.domain.why.run import of_run

__all__ = [
    "Definition",
    "Delay",
    "Explanation",
    "JobHistory",
    "Recorded",
    "Step",
    "of_moment",
    "of_run",
]
