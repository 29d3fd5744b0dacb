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
                detail=f"the system is {seconds:.0f} s behind and takes {jobs_per_second:,.0f} jobs a second;"
                f" try again in {retry_after} s",
                retry_after=retry_after,
                behind_seconds=seconds,
                jobs_per_second=jobs_per_second,
            )
        )

    @property
    def behind_seconds(self) -> float:
        seconds = self.problem.behind_seconds
        return 0.0 if seconds is UNSET else seconds

    @property
    def jobs_per_second(self) -> float:
        rate = self.problem.jobs_per_second
        return 0.0 if rate is UNSET else rate


_BY_STATUS: dict[int, type[Refused]] = {kind.status: kind for kind in Refused.__subclasses__()}


def refusal(problem: Problem) -> Refused:
    """The error a problem document stands for."""
    if problem.status == Saturated.status and problem.behind_seconds is not UNSET:
        return Saturated(problem)
    return _BY_STATUS.get(problem.status, Refused)(problem)
