"""A workshop for executors: real servers and processes, and a tiny owner that hands out work."""
