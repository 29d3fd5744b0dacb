"""Which work an executor takes, and when."""
