"""`waterclock doctor`: one module for each question. `checks.py` lists them, and answers the call."""

from waterclock.api.queries.doctor.checks import doctor

__all__ = ["doctor"]
