"""Every question that `doctor` asks. A new one is a module with a function of this shape, and a line here."""

from collections.abc import Awaitable, Callable

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.queries.doctor.access import check_access
from waterclock.api.queries.doctor.consistency import check_consistency
from waterclock.api.queries.doctor.job_confinement import check_job_confinement
from waterclock.api.readmodels.pool import ReadModelsAway
from waterclock.api.registry import handles
from waterclock.core.jetstream.errors import LogError
from waterclock.proto import methods
from waterclock.proto.answers import Diagnosis, Diagnostic
from waterclock.proto.queries import Nothing

Check = Callable[[Application, Caller], Awaitable[list[Diagnostic]]]

CHECKS: tuple[Check, ...] = (check_job_confinement, check_access, check_consistency)


@handles(methods.SYSTEM_DOCTOR)
async def doctor(app: Application, request: Nothing, caller: Caller) -> Diagnosis:
    findings = [finding for check in CHECKS for finding in await _asked(check, app, caller)]
    return Diagnosis(ok=all(finding.verdict != "problem" for finding in findings), findings=findings)


async def _asked(check: Check, app: Application, caller: Caller) -> list[Diagnostic]:
    try:
        return await check(app, caller)
    except (LogError, ReadModelsAway) as error:
        name = check.__name__.removeprefix("check_").replace("_", " ")
        return [Diagnostic(check=name, verdict="problem", detail=f"cannot be told: {error}")]
