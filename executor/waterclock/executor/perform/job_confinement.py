"""What this executor's settings say about jobs: what they may not see, what they may use, and as whom they run."""

import os
import pwd
from pathlib import Path

from waterclock.core.runtime.settings import FILE, Settings, SettingsError
from waterclock.executor.warden.confinement import USERS, Confinement
from waterclock.executor.warden.job_users import JobUsers, reserve_job_users
from waterclock.executor.warden.messages import Limits

_SECRET_FILES = ("nats_credentials", "nats_key", "database_key", "http_key")
_MEMORY_SHARE = 0.8


def artifact_directory(settings: Settings) -> Path:
    return settings.data.absolute() / "artifacts"


def confinement_of(settings: Settings) -> Confinement:
    artifacts = artifact_directory(settings)
    artifacts.mkdir(parents=True, exist_ok=True, mode=0o711)
    artifacts.chmod(0o711)  # the version before made it for its owner only
    files = [FILE, *(getattr(settings, name) for name in _SECRET_FILES)]
    return Confinement(
        hidden=[str(settings.data.absolute()), *(str(file.absolute()) for file in files if file is not None)],
        artifacts=str(artifacts),
        processes=settings.job_processes,
        processes_max=settings.job_processes_max,
        file_bytes=settings.job_file_bytes,
        file_bytes_max=settings.job_file_bytes_max,
        memory_bytes=settings.jobs_memory_bytes or _most_of_the_memory(),
    )


def most_of(settings: Settings) -> Limits:
    """What a job may ask for at most."""
    return Limits(
        processes=max(settings.job_processes, settings.job_processes_max),
        file_blocks=max(settings.job_file_bytes, settings.job_file_bytes_max) // 512,
    )


def users_of(settings: Settings) -> tuple[JobUsers | None, dict[str, str]]:
    """Whom jobs run as (None: as whom we do), and what is to be reported about it."""
    name = settings.run_as
    if name is None and os.geteuid() == 0:
        users = reserve_job_users()
        return users, {USERS: "" if users else "there are no ids of users for jobs here: they run as root"}
    if name is None:
        return None, {USERS: "only root can give jobs users of their own: they run as the executor's"}
    try:
        user = pwd.getpwnam(name)
    except KeyError:
        raise SettingsError("run_as", "a user of this machine", name, "executor") from None
    if user.pw_uid == os.geteuid():
        return None, {USERS: f"jobs run as {name}, as the executor does (run_as)"}
    if os.geteuid() != 0:
        raise SettingsError("run_as", "nothing, as only root can choose another user", name, "executor")
    return JobUsers([(user.pw_uid, user.pw_gid)]), {USERS: ""}


def _most_of_the_memory() -> int:
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * _MEMORY_SHARE)
