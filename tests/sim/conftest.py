import pytest


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "sim: tens of thousands of simulated trials; about a minute altogether")
