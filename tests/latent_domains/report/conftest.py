"""A few real runs on the tiny digits, for all tests of the report."""

import shutil
from pathlib import Path

import pytest

from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from tests.run_folders import edit, small
from tests.training import train_here


@pytest.fixture(scope="session")
def runs(tiny_data: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, RunFolder]:
    """Source only, and two seeds of mDA with a fifth of the domain labels, of four iterations and two snapshots."""
    folder = tmp_path_factory.mktemp("runs")
    data = tmp_path_factory.mktemp("report") / "data"
    shutil.copytree(tiny_data, data)
    (data / "digits" / "usps_test" / "classes.txt").write_text("".join(f"<{i}>\n" for i in range(10)))
    chosen = {
        "source_only": {"method": "source_only"},
        "mda": {"method": "mda", "known_share": 0.2},
        "mda seed 1": {"method": "mda", "known_share": 0.2, "seed": 1},
    }
    found = {}
    for name, options in chosen.items():
        found[name] = write_run(small(iterations=4, **options), folder / name, data=data)
        for often, value in (("test_interval: 100", 2), ("display: 10", 1), ("snapshot: 500", 2)):
            edit(found[name].solver, often, f"{often.split()[0]} {value}")
    train_here(*found.values(), jobs=2)
    return found
