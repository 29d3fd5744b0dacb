"""The output of attempts, on its way to the store."""
