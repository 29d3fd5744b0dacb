"""Is each executor's machine protected from the jobs that run there?"""

from waterclock.api.application import Application
from waterclock.api.auth.gate import Caller
from waterclock.api.queries import fleet
from waterclock.proto.answers import Diagnostic, Executor

_MEANING = {
    "data_directory": "jobs cannot reach the data directory, its tokens and passwords",
    "artifacts": "jobs read artifacts and cannot change them",
    "inspection": "jobs cannot read memory or environment of our processes",
    "job_users": "each job has a user of its own, and reaches no other job",
    "processes": "the number of processes is limited",
    "file_size": "the size of files is limited",
    "memory": "the memory of all jobs together is limited",
    "archives": "archives are unpacked behind a fence",
}
_ADVICE = {
    "data_directory": "allow user namespaces (sysctl kernel.unprivileged_userns_clone, user.max_user_namespaces,"
    " kernel.apparmor_restrict_unprivileged_userns), or run executors on a machine or as a user without that directory",
    "artifacts": "as for data_directory",
    "job_users": "run the executor as root without run_as, or as a user that has nothing else",
    "memory": "run it as a systemd service with Delegate=yes, or set a memory limit on its container",
    "archives": "a kernel of 5.13 or later with Landlock",
}


_GRAVE = ("data_directory", "inspection")
"""Without these a job is an administrator."""


async def check_job_confinement(app: Application, caller: Caller) -> list[Diagnostic]:
    return [finding for executor in await fleet.executors(app.control) for finding in _of(executor)] or [
        Diagnostic(check="job confinement", verdict="warning", detail="no executor runs")
    ]


def _of(executor: Executor) -> list[Diagnostic]:
    return [
        Diagnostic(
            check=f"{what.replace('_', ' ')} on {executor.host}",
            verdict="ok" if not reason else "problem" if what in _GRAVE else "warning",
            detail=f"not so that {_MEANING.get(what, what)}: {reason}"
            if reason
            else _MEANING.get(what, what),
            advice=_ADVICE.get(what, "") if reason else "",
        )
        for what, reason in executor.protections.items()
    ]
