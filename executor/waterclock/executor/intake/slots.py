"""Room for attempts."""


class Slots:
    """How many attempts may run at a time. What was asked for and has not arrived yet is promised a slot."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self.promised = 0

    @property
    def free(self) -> int:
        """How many more may be asked for."""
        return self.total - self.used - self.promised

    def fits(self, cost: int) -> bool:
        return self.used + cost <= self.total

    def cost_of(self, wanted: int) -> int:
        """A job that asks for more slots than there are gets all there are."""
        return 1 if wanted == 1 else max(1, min(wanted, self.total))
