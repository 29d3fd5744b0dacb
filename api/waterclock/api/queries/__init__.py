"""Methods that only read."""
