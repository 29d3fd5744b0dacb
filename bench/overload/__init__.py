"""Offered three times what it can do: whether it folds, what callers are told, and what becomes of every run."""
