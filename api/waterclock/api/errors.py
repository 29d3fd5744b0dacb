"""Everything that can go wrong between a caller and the service. The service raises these, and the client raises
the same ones again on the other side of the wire.

    WaterclockError
    ├── Unreachable            nobody answered: the service, NATS or the network is away
    └── Refused                answered with a problem document
        ├── Malformed        400   not JSON, or not an object
        ├── Unauthenticated  401   no token, or one nobody knows
        ├── Forbidden        403   the token does not reach that far
        ├── NotFound         404
        ├── NotAllowed       405   the path exists, the verb does not
        ├── Conflict         409   exists already, and differs
        ├── VersionMismatch  412   changed since it was read
        ├── TooLarge         413
        ├── Invalid          422   understood and wrong; `problem.errors` names the fields
        ├── RateLimited      429   try again after `problem.retry_after` seconds
        └── Unavailable      503   the log or the read models cannot be reached; try again
            └── Saturated          the system is behind and takes no more for now; try again
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import ClassVar, Self

from msgspec import UNSET

from waterclock.proto.problem import Difference, FieldError, Problem


class WaterclockError(Exception):
    pass


class Unreachable(WaterclockError):
    pass


class Refused(WaterclockError):
    status: ClassVar[int] = 400

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem.detail or problem.title)
        self.problem = problem

    @property
    def retry_after(self) -> float | None:
        """Seconds after which the same request may succeed, where the service knows."""
        wait = self.problem.retry_after
        return None if wait is UNSET else wait

    @classmethod
    def because(
        cls,
        detail: str,
        errors: Iterable[FieldError] = (),
        *,
        differences: Iterable[Difference] = (),
        retry_after: float | None = None,
    ) -> Self:
        return cls(
            Problem(
                status=cls.status,
                title=HTTPStatus(cls.status).phrase,
                detail=detail,
                errors=tuple(errors),
                differences=tuple(differences) or UNSET,
                retry_after=UNSET if retry_after is None else retry_after,
            )
        )

    @classmethod
    def field(cls, name: str, reason: str) -> Self:
        return cls.because(f"{name}: {reason}" if name else reason, [FieldError(field=name, reason=reason)])


class Malformed(Refused):
    status = 400


class Unauthenticated(Refused):
    status = 401


class Forbidden(Refused):
    status = 403
    actor = ""
    """Who was refused, and the namespace of their token: for the record of it, not for the answer."""
    namespace = ""


class NotFound(Refused):
    status = 404


class NotAllowed(Refused):
    status = 405


class Conflict(Refused):
    status = 409


class VersionMismatch(Refused):
    status = 412


class TooLarge(Refused):
    status = 413


class Invalid(Refused):
    status = 422


class RateLimited(Refused):
    status = 429


class Unavailable(Refused):
    status = 503


class Saturated(Unavailable):
    """More is offered than is done. Nothing of the request was taken, and the same one may succeed later."""

    @classmethod
    def behind(cls, seconds: float, jobs_per_second: float, retry_after: int) -> Self:
        return cls(
            Problem(
                status=cls.status,
                title=HTTPStatus(cls.status).phrase,
                detail=f"the system has {seconds:.0f} s of work to do and takes {jobs_per_second:,.0f} jobs a second;"
                f" try again in {retry_after} s",
                retry_after=retry_after,
                drain_seconds=seconds,
                jobs_per_second=jobs_per_second,
            )
        )

    @classmethod
    def crowded(cls, waiting: int, retry_after: int) -> Self:
        return cls(
            Problem(
                status=cls.status,
                title=HTTPStatus(cls.status).phrase,
                detail=f"{waiting:,} runs of this namespace are due and wait for executors; more are accepted when"
                f" some have been taken; try again in {retry_after} s",
                retry_after=retry_after,
                waiting=waiting,
            )
        )

    @property
    def why(self) -> str:
        """What the caller waits for, in a few words."""
        problem = self.problem
        if problem.waiting is not UNSET:
            return (
                f"{problem.waiting:,} runs of this namespace wait for executors: submitting as they are taken"
            )
        seconds = 0.0 if problem.drain_seconds is UNSET else problem.drain_seconds
        rate = 0.0 if problem.jobs_per_second is UNSET else problem.jobs_per_second
        return f"waterclock has {seconds:.0f} s of work to do: submitting at its pace, {rate:,.0f}/s"


_BY_STATUS: dict[int, type[Refused]] = {kind.status: kind for kind in Refused.__subclasses__()}


def refusal(problem: Problem) -> Refused:
    """The error a problem document stands for."""
    overloaded = problem.drain_seconds is not UNSET or problem.waiting is not UNSET
    if problem.status == Saturated.status and overloaded:
        return Saturated(problem)
    return _BY_STATUS.get(problem.status, Refused)(problem)
