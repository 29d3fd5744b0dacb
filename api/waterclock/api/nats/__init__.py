"""The same methods as a NATS service."""
