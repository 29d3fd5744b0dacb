from waterclock.projector.sql.migrator import migrations


def test_migrations_are_numbered_one_by_one() -> None:
    """Two that were written at the same time may have taken the same number."""
    numbers = [migration.number for migration in migrations()]
    assert numbers == list(range(1, len(numbers) + 1))
