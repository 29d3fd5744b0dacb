"""A set of small numbers as an integer: bit n says that n is in it."""


def lowest(mask: int, start: int) -> int:
    """The smallest member from `start` on, or -1."""
    rest = mask >> start
    return start + (rest & -rest).bit_length() - 1 if rest else -1


def highest(mask: int, end: int) -> int:
    """The largest member up to and including `end`, or -1."""
    return (mask & ((2 << end) - 1)).bit_length() - 1
