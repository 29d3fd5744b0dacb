"""Room for attempts."""


class Slots:
    """`free` is what may still be promised: neither in use, nor asked for and not yet arrived."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.used = 0
        self.promised = 0

    @property
    def free(self) -> int:
        return self.total - self.used - self.promised

    def fits(self, cost: int) -> bool:
        return self.used + cost <= self.total

    def cost_of(self, wanted: int) -> int:
        """What asks for more than there is gets all there is."""
        return max(1, min(wanted, self.total))
