"""The tests of a real SLURM run on demand alone: they take minutes, and daemons of their own."""

import pytest

from tests.cluster.slurm import Cluster, cluster, programs_missing
from tests.fixtures import tiny_data  # noqa: F401


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if "slurm" in config.getoption("-m"):
        return
    for item in items:
        if item.get_closest_marker("slurm"):
            item.add_marker(pytest.mark.skip(reason="takes minutes on a SLURM of its own: make test-slurm"))


@pytest.fixture(scope="session")
def slurm(tmp_path_factory: pytest.TempPathFactory) -> Cluster:
    """A cluster of one node with two cores."""
    if missing := programs_missing():
        pytest.fail(f"not installed: {', '.join(missing)}; run docker/install_packages.sh slurm")
    with cluster(tmp_path_factory.mktemp("slurm")) as found:
        yield found
