"""A schedule that cannot be meant."""


class InvalidSchedule(ValueError):
    """Names the field of the schedule and what is wrong with it."""

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"{field}: {reason}")
        self.field = field
        self.reason = reason
