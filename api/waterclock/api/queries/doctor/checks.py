"""Every question that `doctor` asks. A new one is a module with a function of this shape, and a line here."""

from collections.abc import Awaitable, Callable

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.queries.doctor.access import check_access
from waterclock.api.queries.doctor.job_confinement import check_job_confinement
from waterclock.api.registry import handles
from waterclock.core.jetstream.errors import LogError
from waterclock.proto import methods
from waterclock.proto.answers import Diagnosis, Diagnostic
from waterclock.proto.queries import Nothing

Check = Callable[[Application], Awaitable[list[Diagnostic]]]

CHECKS: tuple[Check, ...] = (check_job_confinement, check_access)


@handles(methods.SYSTEM_DOCTOR)
async def doctor(app: Application, request: Nothing, caller: Caller) -> Diagnosis:
    findings = [finding for check in CHECKS for finding in await _asked(check, app)]
    return Diagnosis(ok=all(finding.verdict != "problem" for finding in findings), findings=findings)


async def _asked(check: Check, app: Application) -> list[Diagnostic]:
    try:
        return await check(app)
    except LogError as error:
        name = check.__name__.removeprefix("check_").replace("_", " ")
        return [Diagnostic(check=name, verdict="problem", detail=f"cannot be told: {error}")]
