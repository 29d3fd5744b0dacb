"""Executors under test: real servers and processes, and a stand-in for the scheduler that hands out work."""
