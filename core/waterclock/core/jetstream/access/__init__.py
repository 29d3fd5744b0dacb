"""Who may do what on NATS, and what is done for those who may not."""
