"""What a handler may raise to decide how its attempt ends. Any other exception is a failure, retried by the policy."""


class Directive(Exception):
    pass


class Retry(Directive):
    """Failed; try again, after `after` seconds instead of the policy's wait. Counts as an attempt."""

    def __init__(self, reason: str = "", *, after: float | None = None) -> None:
        super().__init__(reason or "asked to be retried")
        self.after = after


class Snooze(Directive):
    """Not yet; call again after `seconds`. Does not count as an attempt."""

    def __init__(self, seconds: float, reason: str = "") -> None:
        super().__init__(reason)
        self.seconds = seconds


class Cancel(Directive):
    """Pointless; end the run as cancelled."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "cancelled by its handler")


class SecretMissing(Exception):
    """A secret that a handler asked for is not set, or cannot be read here. Trying again will not help."""
