"""Requests that work as they stand, shown in the reference."""

from typing import Any

EXAMPLES: dict[str, dict[str, Any]] = {
    "jobs.create": {
        "once": {
            "job_type": "email_send",
            "schedule_time": "2026-12-31T23:59:59Z",
            "payload": {"user_id": 123, "body": "..."},
            "retries": 3,
        },
        "recurring": {
            "name": "Daily Data Cleanup",
            "schedule_type": "CRON",
            "cron_expression": "0 0 * * *",
            "payload": {"cleanup_target": "old_logs", "retention_days": 30},
            "max_retries": 2,
        },
        "command": {
            "job_id": "backup",
            "name": "backup",
            "schedule": "0 0 * * *",
            "command": "pg_dump prod > /backups/prod.sql",
            "dependencies": [],
            "max_retries": 3,
            "timeout_seconds": 3600,
            "priority": 5,
            "metadata": {"team": "data"},
        },
    },
    "jobs.update": {"reschedule": {"cron_expression": "30 2 * * *", "timezone": "Europe/Paris"}},
    "jobs.pause": {"with a note": {"note": "the warehouse is being moved"}},
    "schedules.preview": {
        "weekdays": {"cron_expression": "0 3 * * MON-FRI", "timezone": "Europe/Paris", "n": 5},
        "interval": {"every": "30s"},
    },
}
