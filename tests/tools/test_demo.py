"""The demo program, end to end with two iterations: real data, real training, its table, pictures and page."""

import json

import cv2
import numpy as np
import pytest

from tests.programs import program


@pytest.mark.program
def test_demo_prints_its_table_and_draws_its_pictures(tmp_path):
    folders = ("--runs", tmp_path / "runs", "--data", tmp_path / "data")
    done = program("demo", "--iterations", 2, "--threads", 1, *folders)
    assert done.returncode == 0, done.stderr[-2000:]
    rows = [line for line in done.stdout.splitlines() if line.startswith("|")]
    assert [row.split("|")[1].split(",")[0].strip() for row in rows[2:]] == ["source only", "DIAL", "mDA", "mDA"]
    for name in ("samples", "latent_domains"):
        picture = cv2.imread(str(tmp_path / "runs" / f"{name}.png"))
        assert picture is not None and min(picture.shape[:2]) > 200, name
        assert len(np.unique(picture.reshape(-1, 3), axis=0)) > 10, f"{name} is blank"
    page = (tmp_path / "runs" / "report.html").read_text()
    assert "centred logits" in page and "data:image/svg+xml" in page
    records = [json.loads(file.read_text()) for file in (tmp_path / "runs").glob("mda_*/record.json")]
    assert [record["domain_usage"]["held_out"] for record in records] == [True, True]
    assert all(record["domain_usage"]["purity"] >= 0.5 for record in records)
