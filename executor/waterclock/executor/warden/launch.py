"""Starting one program: its own session and directory, only the environment it was given, and its limits."""

import os
import shutil
import signal
import subprocess

from waterclock.executor.warden.messages import Limits, Start

_RESET = (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OPTIONS = {"cpu_seconds": "t", "memory_kib": "v", "open_files": "n"}


class CannotStart(Exception):
    pass


def launch(order: Start, stdin: int, stdout: int, stderr: int) -> int:
    """Returns the pid. The caller is single-threaded: the working directory is inherited from it."""
    argv = order.argv
    program = find_program(argv[0], order.env)
    if order.limits.any:
        argv = ["/bin/sh", "-c", f'{ulimits(order.limits)} exec "$0" "$@"', program, *argv[1:]]
        program = argv[0]
    try:
        if order.identity is not None:
            return _launch_as(
                order.identity, program, argv, order.env, order.directory, (stdin, stdout, stderr)
            )
        os.chdir(order.directory)
        return os.posix_spawn(
            program,
            argv,
            order.env,
            file_actions=[
                (os.POSIX_SPAWN_DUP2, stdin, 0),
                (os.POSIX_SPAWN_DUP2, stdout, 1),
                (os.POSIX_SPAWN_DUP2, stderr, 2),
            ],
            setsid=True,
            setsigmask=(),
            setsigdef=_RESET,
        )
    except (OSError, ValueError) as error:
        raise CannotStart(f"cannot start {order.argv[0]}: {_said(error)}") from error


def find_program(name: str, env: dict[str, str]) -> str:
    """A program by its path, or by its name on the job's own PATH."""
    if "/" in name:
        return name
    found = shutil.which(name, path=env.get("PATH", os.defpath))
    if found is None:
        raise CannotStart(f"cannot start {name}: no such program on PATH")
    return found


def ulimits(limits: Limits) -> str:
    """Shell text that sets the limits for good. A limit set from outside would be late by a fork or two."""
    parts = [
        f"ulimit -{option} {value};" for name, option in _OPTIONS.items() if (value := getattr(limits, name))
    ]
    if limits.processes:
        parts.append(f"ulimit -u {limits.processes} 2>/dev/null || ulimit -p {limits.processes};")
    return " ".join(parts)


def _launch_as(
    identity: tuple[int, int],
    program: str,
    argv: list[str],
    env: dict[str, str],
    directory: str,
    fds: tuple[int, int, int],
) -> int:
    user, group = identity
    os.chown(directory, user, group)
    process = subprocess.Popen(
        argv,
        executable=program,
        env=env,
        cwd=directory,
        stdin=fds[0],
        stdout=fds[1],
        stderr=fds[2],
        user=user,
        group=group,
        extra_groups=(),
        start_new_session=True,
        restore_signals=True,
    )
    process.returncode = 0  # the warden reaps it itself
    return process.pid


def _said(error: OSError | ValueError) -> str:
    return error.strerror or str(error) if isinstance(error, OSError) else str(error)
