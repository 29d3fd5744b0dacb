"""One file for each kind of job, and what performers share."""
