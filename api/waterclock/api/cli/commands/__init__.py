"""One module for commands that belong together; only the one that is called is imported."""
