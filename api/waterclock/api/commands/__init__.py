"""Methods that change something."""
