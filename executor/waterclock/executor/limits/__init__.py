"""Limits that hold across executors: concurrency keys and rates."""
