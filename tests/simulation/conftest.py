"""Replay one seed: `pytest tests/simulation --seed 1234`."""

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, default=None, help="replay one seed of the simulation")
