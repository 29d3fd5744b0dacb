"""The ports of the scheduler, implemented against JetStream."""
