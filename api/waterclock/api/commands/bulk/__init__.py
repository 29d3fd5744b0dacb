"""One thing done to many: to jobs or runs by their ids, or to all that a listing would find."""

from waterclock.api.commands.bulk import jobs, runs

__all__ = ["jobs", "runs"]
