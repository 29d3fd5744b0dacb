"""What goes wrong with a node before anything of it runs."""


class Unusable(Exception):
    """A template, a condition or a list to expand cannot be used; the message says why."""
