"""The timing index of a partition, and how much of it is in memory."""
