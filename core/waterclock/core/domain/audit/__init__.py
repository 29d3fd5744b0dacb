"""The proof: what should have fired, from definition events alone, joined with what the log says was decided.

Every due time is accounted for exactly once: it ran, was skipped, missed or cancelled, each by an event with its
reason. The fault tests use this as their checker, `waterclock audit` shows it to users.
"""

from waterclock.core.domain.audit.auditor import EDIT_LAG, Auditor
from waterclock.core.domain.audit.report import AuditReport, Fault, Finding
from waterclock.core.domain.audit.spans import Span, spans

__all__ = ["EDIT_LAG", "AuditReport", "Auditor", "Fault", "Finding", "Span", "spans"]
