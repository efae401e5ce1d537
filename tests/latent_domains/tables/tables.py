"""A small table and records for it, for tests."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from latent_domains.tables.definition import BaselineRun, Run, Table, load

TEXT = """
title: "Small"
source: Table 9
dataset: digits
seeds: [0, 1, 2]
columns:
  - {name: U, sources: [mnist, mnistm], targets: [usps]}
  - {name: Mm, sources: [mnist, usps], targets: [mnistm]}
rows:
  - name: ours
    paper: {values: [80.0, 90.0], mean: 84.0}
    runs: {method: mda}
    note: a note
  - name: best
    paper: {missing: the paper has none}
    runs: {method: dial, best_single_source: true}
  - name: shallow
    paper: {values: [50, 60], mean: 55}
    baseline: {method: gong2013}
  - name: theirs
    paper: {values: [1.2, 2.2], mean: 1.9}
    cited: Somebody 2001
"""


def small_table(folder: Path, text: str = TEXT) -> Table:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "small.yaml").write_text(text)
    return load(folder / "small.yaml")


def record_of(run: Run, accuracy: float, **changes: Any) -> dict[str, Any]:
    """What tables read of a record."""
    if isinstance(run, BaselineRun):
        said = {"baseline": {**asdict(run), "sources": list(run.sources), "targets": list(run.targets)}}
    else:
        said = {"experiment": run.to_json()}
    tested = sum(map(run.data.test_count, run.targets))
    return {**said, "accuracy": accuracy, "targets": {}, "test_images": tested, **changes}


def write_record(runs: Path, run: Run, accuracy: float, **changes: Any) -> Path:
    """Write a record where the run's folder is."""
    file = runs / run.dataset / run.name / "record.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(record_of(run, accuracy, **changes)))
    return file
