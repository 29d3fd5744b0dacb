"""`python -m executor_rig`: an executor as a process of its own, for tests that kill, stop or drain it."""

from waterclock.core.runtime.lifecycle import run_service
from waterclock.core.runtime.settings import load
from waterclock.executor.service import run

raise SystemExit(run_service("executor", run, load({})))
