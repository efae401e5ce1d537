"""How a run's model is described."""

import shutil
from pathlib import Path

from latent_domains.runs.predict import describe_run
from latent_domains.runs.write import write_run
from tests.latent_domains.report.records import write_record
from tests.run_folders import small


def test_describe_run_classes_are_those_of_the_training(tiny_data: Path, tmp_path: Path) -> None:
    """Not those of LMDBs that were made anew where the run's were: its folder may have got another name since."""
    names = {name: tuple(f"{name} {digit}" for digit in range(10)) for name in ("old", "new")}
    data = shutil.copytree(tiny_data, tmp_path / "data")
    folder = write_run(small("source_only"), tmp_path / "run", data=data)
    assert describe_run(folder).classes == tuple(map(str, range(10)))
    (data / "digits" / "usps_test" / "classes.txt").write_text("\n".join(names["new"]))
    assert describe_run(folder).classes == names["new"]
    write_record(folder.record_file, folder.experiment, 0.5)
    assert describe_run(folder).classes == names["new"]
    write_record(folder.record_file, folder.experiment, 0.5, classes=names["old"])
    assert describe_run(folder).classes == names["old"]
