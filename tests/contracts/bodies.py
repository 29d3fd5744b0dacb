"""The three request bodies that the REST interface promises to take, as they stand."""

from typing import Any

CONTRACT_BODIES: list[dict[str, Any]] = [
    {
        "job_type": "email_send",
        "schedule_time": "2026-12-31T23:59:59Z",
        "payload": {"user_id": 123, "body": "..."},
        "retries": 3,
    },
    {
        "name": "Daily Data Cleanup",
        "schedule_type": "CRON",
        "cron_expression": "0 0 * * *",
        "payload": {"cleanup_target": "old_logs", "retention_days": 30},
        "max_retries": 2,
    },
    {
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
]
