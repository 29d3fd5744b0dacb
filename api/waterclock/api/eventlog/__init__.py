"""What the api writes to the log: definitions to `JOBS`, requests of users to `RUNS`."""
