"""Who gets in?"""

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.proto.answers import Diagnostic

_LOOPBACK = ("127.0.0.1", "::1", "localhost")


async def check_access(app: Application, caller: Caller) -> list[Diagnostic]:
    settings = app.settings
    findings = []
    if settings.auth == "off":
        findings.append(
            Diagnostic(
                check="access",
                verdict="warning",
                detail="whoever can open a connection to this machine's loopback may run commands",
                advice="WATERCLOCK_AUTH=on",
            )
        )
    else:
        findings.append(Diagnostic(check="access", verdict="ok", detail="every call needs a token"))
    if settings.host not in _LOOPBACK and settings.http_cert is None:
        findings.append(
            Diagnostic(
                check="transport",
                verdict="warning",
                detail=f"tokens go over {settings.host} in clear",
                advice="set http_cert and http_key, or let a proxy do it",
            )
        )
    return findings
