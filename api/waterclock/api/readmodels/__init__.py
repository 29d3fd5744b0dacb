"""Reads of the projector's tables."""
