"""`python -m waterclock.api.cli`."""

from waterclock.api.cli import main

main()
