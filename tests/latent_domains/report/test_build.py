"""The program: what it writes, and what it says where something is missing."""

import html
import json
import re
import shutil
from dataclasses import replace

import cv2
import pytest

from latent_domains.common.program import ROOT
from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import make_experiment
from latent_domains.report import alignment
from latent_domains.report.build import build
from latent_domains.tables.definition import EXPERIMENTS, BaselineRun, load
from tests.latent_domains.report.records import write_record
from tests.programs import names, program
from tests.run_folders import edit


def text_of(file):
    """The text of a page, without its charts and its style."""
    page = re.sub(r"(?s)<style>.*?</style>|<svg.*?</svg>", " ", file.read_text())
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


@pytest.mark.program
def test_build_a_run_is_reported_in_its_folder_with_its_figures(runs, tmp_path, monkeypatch):
    folder = tmp_path / "run"
    shutil.copytree(runs["mda"].path, folder)
    monkeypatch.setattr(alignment, "IMAGES", 24)
    done = program("report", folder, "--figures", tmp_path / "figures")
    assert done.returncode == 0, done.stderr
    assert done.stdout == f"report: {folder / 'report.html'}\n"
    assert names(folder).count("report.html") == 1 and not [name for name in names(folder) if name.startswith(".rep")]
    text = text_of(folder / "report.html")
    record = json.loads((folder / "record.json").read_text())
    assert f"mDA, k=2, 20 % of domain labels known on mnist+mnistm → usps: {100 * record['accuracy']:.1f} %" in text
    shown = (folder / "report.html").read_text()  # in words for those who cannot see the pictures
    assert "s₁, surest" in shown and "% are of the own domain" in shown
    assert record["versions"]["numpy"] in text and record["commit"][:12] in text
    assert f"{ROOT}/" not in shown, "a page holds no place of this machine"
    for name in ("accuracy-1", "features-by-domain-run", "features-by-class-run", "confusion-1-usps", "pictures-run"):
        assert cv2.imread(str(tmp_path / "figures" / f"{name}.png")).std() > 3, name


def test_build_a_record_alone_shows_what_it_can(tmp_path):
    """Without confusion counts, history or times."""
    path = write_record(tmp_path / "kept.json", make_experiment("digits", "mda", k=3), 0.75)
    out = tmp_path / "out" / "report.html"
    assert program("report", path).returncode == 2  # no folder to write to
    done = program("report", path, "--out", out)
    assert done.returncode == 0, done.stderr
    text = text_of(out)
    assert "75.0 %" in text
    assert "The domains collapsed" in text and "How the domains were used along training is not known" in text
    missing = "No images of the latent domains: of kept there is only a record"
    assert missing in text and done.stderr.count(f"note: {missing}") == 1
    assert "No features: of kept there is only a record" in text
    assert "No training log of kept is here" in text
    assert "The records hold no confusion counts" in text and "a record alone" in text


@pytest.mark.program
def test_build_a_run_without_its_snapshots_its_log_or_its_data(runs, tmp_path):
    folder, lost = tmp_path / "run", tmp_path / "lost"
    for copy in (folder, lost):
        shutil.copytree(runs["mda"].path, copy)
    shutil.rmtree(folder / "snapshots")
    (folder / "train.log").unlink()
    edit(lost / "experiment.json", str(runs["mda"].data_folder), str(tmp_path / "nowhere"))
    (lost / "train.log").write_text("noise\n")
    for copy, reason in (
        (folder, f"{folder}/snapshots holds no snapshot of iteration 4 any more"),
        (lost, f"No features: {tmp_path}/nowhere/digits/mnist_train: no LMDB there"),
    ):
        done = program("report", copy)
        assert done.returncode == 0, done.stderr
        text = text_of(copy / "report.html")
        assert reason in text and f"No training log of {copy.name} is here" in text


@pytest.mark.program
def test_build_a_log_without_losses_is_not_called_missing(runs, tmp_path):
    """Of the log of a run, what Caffe writes with display: 0."""
    folder = tmp_path / "run"
    shutil.copytree(runs["mda"].path, folder)
    edit(folder / "solver.prototxt", "display: 1", "display: 0")
    lines = (folder / "train.log").read_text().splitlines()
    kept = [line for line in lines if "Train net output" not in line and ", loss = " not in line]
    assert len(kept) < len(lines) and any("Test net output" in line for line in kept)
    (folder / "train.log").write_text("\n".join(kept))
    assert program("report", folder).returncode == 0
    text = text_of(folder / "report.html")
    assert "The log of run has no losses, so there are no curves: display is 0 in RUN/solver.prototxt." in text
    assert "No training log" not in text


def test_build_several_targets_and_targets_without_labels(tmp_path):
    experiment = make_experiment("office_caltech_fc7", "mda")
    confusion = [[3 if i == j else 0 for j in range(10)] for i in range(10)]
    known = {target: {"accuracy": 1.0, "test_images": 30, "confusion": confusion} for target in experiment.targets}
    classes = [f"class {i}" for i in range(10)]
    paths = [
        write_record(tmp_path / "two.json", experiment, 1.0, targets=known, classes=classes),
        write_record(tmp_path / "none.json", make_experiment("digits", "dial"), None, targets={}),
    ]
    done = program("report", *paths, "--out", tmp_path / "r.html")
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "r.html").read_text()
    assert 'id="confusion-1-webcam"' in page and 'id="confusion-1-dslr"' in page
    assert "The target's labels are not known, so there is no accuracy" in text_of(tmp_path / "r.html")
    unlabelled = replace(DATASETS["digits"], name="mine", unlabelled=("usps",))
    mine = write_record(tmp_path / "mine.json", make_experiment(unlabelled, "dial"), None, targets={})
    assert program("report", mine, "--out", tmp_path / "mine.html").returncode == 0
    assert "The target's labels are not known, so no confusion matrix can be shown" in text_of(tmp_path / "mine.html")
    partly = replace(DATASETS["office_caltech_fc7"], name="mine", unlabelled=("dslr",))
    webcam = {"webcam": known["webcam"]}
    one = write_record(tmp_path / "one.json", make_experiment(partly, "dial"), 0.5, targets=webcam, classes=classes)
    assert program("report", one, "--out", tmp_path / "one.html").returncode == 0
    assert "→ webcam+dslr: 50.0 % of the test images of webcam are right" in text_of(tmp_path / "one.html")
    assert 'alt="Accuracy on webcam: ' in (tmp_path / "one.html").read_text()


def test_build_a_table_of_the_paper_from_kept_records(tmp_path):
    paths = [
        write_record(tmp_path / f"{method}{seed}.json", make_experiment("digits", method, seed=seed), accuracy)
        for seed in (0, 1)
        for method, accuracy in (("source_only", 0.5), ("mda", 0.9 + seed / 100))
    ]
    edit(tmp_path / "mda1.json", '"nmi": 0.0', '"nmi": 0.1')
    out = tmp_path / "report.html"
    done = program("report", *paths, "--table", "digits", "--seeds", "0,1", "--out", out)
    assert done.returncode == 0, done.stderr
    text = text_of(out)
    assert "Digits: MNIST (M) and MNIST-M (Mm) to USPS (U) (Table 1)" in text and "the best mean is 90.5 %" in text
    assert "mDA, k = 2 82.5 90.5 0.7 2 +8.0" in text
    assert "Multi-source DA 84.2 – – – –" in text
    assert "In 2 of 2 runs with k > 1 the branch collapsed" in text
    assert "Shown in pictures: source_only0, mda1 (of mDA the run whose latent domains match the true ones" in text


def test_build_a_shallow_baseline_without_random_numbers_stands_in_its_table_as_one_run(tmp_path):
    table = load(EXPERIMENTS / "pacs_features.yaml", seeds=(0, 1))
    baseline = next(one for one in table.runs if isinstance(one, BaselineRun) and one.method == "logistic")
    record = tmp_path / f"{baseline.name}.json"
    record.write_text(json.dumps({"baseline": {}, "accuracy": 0.425, "targets": {}}))
    done = program("report", record, "--table", table.name, "--seeds", "0,1", "--out", tmp_path / "r.html")
    assert done.returncode == 0, done.stderr
    assert " 42.5 – 1 " in text_of(tmp_path / "r.html")


@pytest.mark.parametrize(("method", "name"), [("logistic", "logistic regression"), ("svm", "linear SVM")])
def test_build_a_shallow_baseline_stands_beside_a_run_on_the_same_data(method, name, tmp_path):
    run = write_record(tmp_path / "dial.json", make_experiment("pacs_lite0", "dial"), 0.5)
    said = {"method": method, "dataset": "pacs_lite0"}
    shallow, worse = tmp_path / "shallow.json", tmp_path / "worse.json"
    worse.write_text(json.dumps({"baseline": {**said, "targets": ["sketch"]}, "accuracy": 0.3, "targets": {}}))
    for target, told in (("photo", "found a shallow baseline alone, expected its table"), ("sketch", "")):
        record = {"baseline": {**said, "targets": [target]}, "accuracy": 0.425, "targets": {}}
        shallow.write_text(json.dumps(record))
        for _ in range(2):  # a report is replaced
            done = program("report", run, worse, shallow, "--out", tmp_path / "r.html")
        assert told in done.stderr and done.returncode == bool(told), done.stderr
    text = text_of(tmp_path / "r.html")
    assert f"the best accuracy is 50.0 % (DIAL); without adaptation it is 42.5 % ({name})." in text
    assert "method here (%) std n DIAL 50.0 – 1" in text, "nothing of the paper, which has no such numbers"
    edit(run, '"accuracy": 0.5', '"accuracy": 0.4')
    assert program("report", run, worse, shallow, "--out", tmp_path / "r.html").returncode == 0
    best = f"the best accuracy is 42.5 % ({name}). "
    assert best in text_of(tmp_path / "r.html"), "which is without adaptation"
    build([run, worse, shallow], tmp_path / "r.html", model=run)
    assert f"the model, DIAL, has 40.0 %. art_painting+cartoon+photo → sketch: {best}" in text_of(tmp_path / "r.html")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 2, "expected a RUN, or --table"),
        (["."], 2, "expected --out FILE for several runs"),
        (["--seeds", "1", "x.json"], 2, "pass --table"),
        (["x.json", "--out", "r.html"], 1, "x.json: no such file, expected a run folder or a record"),
        (["--table", "digits", "--runs-folder", "nowhere"], 1, "none of the 75 runs of digits is there"),
        (["{record}", "--show", "other", "--out", "r.html"], 1, "--show: found 'other', expected a run that is"),
        (["{record}", "--out", "{record}"], 1, "r.json: it is an input file, choose another name"),
        (["{record}", "--out", "thesis.tex"], 1, "thesis.tex: exists and is not a report"),
        (["{record}", "--out", "r.html", "--figures", "{record}"], 1, "r.json: a file is there, expected a folder"),
    ],
)
def test_build_what_is_wrong_is_said_in_a_line(arguments, code, message, tmp_path, monkeypatch):
    record = write_record(tmp_path / "r.json", make_experiment("digits", "dial"), 0.5)
    (tmp_path / "thesis.tex").write_text("years")
    monkeypatch.chdir(tmp_path)
    done = program("report", *[argument.replace("{record}", str(record)) for argument in arguments])
    assert done.returncode == code
    assert message in done.stderr and "Traceback" not in done.stderr
    assert names(tmp_path) == ["r.json", "thesis.tex"] and (tmp_path / "thesis.tex").read_text() == "years"
