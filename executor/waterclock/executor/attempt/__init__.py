"""One attempt from its start to its report."""
