"""The whole command on small pictures: two labelled domains to a labelled target, an undivided mixture to an unlabelled
one, interrupted and called again; and what it refuses.
"""

import csv
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import cv2
import numpy as np
import pytest

from latent_domains.adapt import training
from latent_domains.adapt.choice import CANDIDATES, Choice
from latent_domains.backbones.onnx_backbone import OnnxBackbone
from latent_domains.common.program import ROOT
from latent_domains.data.image_datum import Format, read_image
from latent_domains.data.lmdb_io import datum_image, read, read_labels, record_name
from latent_domains.data.preprocessing import Reading
from latent_domains.data.published_file import in_package
from latent_domains.data.sets.published import PACS
from latent_domains.domains import style
from latent_domains.experiment.baselines import BASELINES
from latent_domains.models.classifier import read_description
from latent_domains.networks.lite0 import LITE0
from latent_domains.runs.lock import locked
from latent_domains.runs.run_folder import RunFolder
from tests.pictures import sample
from tests.programs import Done, interrupt, names, program, replacing
from tests.run_folders import edit
from tests.shapes import CLASSES, picture, plant_domain

pytestmark = pytest.mark.program

SMALL = ("--network", "mnist", "--iterations", 8, "--batch-size", 8, "--threads", "1", "--jobs", 1)

RESULTS = {
    "README.txt",
    "data",
    "domains.csv",
    "lock",
    "model.caffemodel",
    "model.json",
    "model.onnx",
    "model.prototxt",
    "predictions.csv",
    "report.html",
    "run",
    "settings.json",
}

OF_CLUSTERS = "model.domains.npz"
"""What tells the domains of new pictures, where domains are clusters of style."""

ON_FEATURES_ALONE = {"baselines", "choice.json", "chosen.caffemodel", "held_out", OF_CLUSTERS}
"""What a classifier of features has besides."""


def plant(folder: Path) -> None:
    """Three domains of six images each."""
    for look in ("night", "day", "dusk"):
        plant_domain(folder / look, look, 2)


def rows(file: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(file.read_text().splitlines()))


def arguments(folder: Path, *more: object) -> tuple[object, ...]:
    """Two sources to a labelled target."""
    sources = ("--source", folder / "night", "--source", folder / "day")
    return ("adapt", *sources, "--target", folder / "dusk", *replacing(("--out", folder / "out", *SMALL), more))


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """A folder of three domains and ``out``, and what the command said."""
    folder = tmp_path_factory.mktemp("labelled")
    for look in ("night", "day", "dusk"):
        plant_domain(folder / look, look)
    done = program(*arguments(folder))
    assert done.returncode == 0, done.stderr
    return folder, done


def test_adapt_everything_lies_in_one_folder_that_explains_itself(labelled):
    folder, done = labelled
    out = folder / "out"
    assert set(names(out)) == RESULTS
    assert (
        "night (source): 18 images of 18 files" in done.stdout
        and "dusk (target, labelled): 18 images of 18 files" in done.stdout
    )
    assert "3 classes: cross, disc, square" in done.stdout
    assert re.search(r"[\d.]+ s: about \d+ s for 8 iterations of 24 images, with tests\. Ctrl-C stops", done.stdout)
    for text in (done.stdout, (out / "README.txt").read_text()):
        for name in RESULTS - {"README.txt"}:
            assert f"  {name:<16} " in text
    assert "<html" in (out / "report.html").read_text()


def test_adapt_predictions_are_those_of_the_record(labelled):
    out = labelled[0] / "out"
    found = rows(out / "predictions.csv")
    assert [row["path"] for row in found] == [f"{name}/{number}.png" for name in CLASSES for number in range(6)]
    assert all(row["true class"] == row["path"].split("/")[0] for row in found)
    correct = sum(row["class"] == row["true class"] for row in found)
    record = json.loads((out / "run" / "record.json").read_text())
    assert record["accuracy"] == pytest.approx(correct / len(found))
    assert record["experiment"]["task"]["dataset"]["counts"] == {"night": 18, "day": 18, "dusk": 18}
    assert RunFolder.load(out / "run").experiment.k == 2


def test_adapt_domains_of_every_source_image(labelled):
    out = labelled[0] / "out"
    found = rows(out / "domains.csv")
    assert len(found) == 36 and {row["source"] for row in found} == {"night", "day"}
    for row in found:
        probabilities = [float(row[f"probability of domain {number}"]) for number in (1, 2)]
        assert sum(probabilities) == pytest.approx(1, abs=2e-6)
        assert probabilities[int(row["domain"]) - 1] == max(probabilities)
    usage = RunFolder.load(out / "run").read_record().domain_usage
    of_night = [row["domain"] for row in found if row["source"] == "night"]
    assert usage.counts[0] == [of_night.count("1"), of_night.count("2")]


def test_adapt_new_images_are_predicted_by_the_folder_the_run_and_the_model(labelled, tmp_path):
    folder, _ = labelled
    predictions = []
    for number, model in enumerate((folder / "out", folder / "out" / "run", folder / "out" / "model")):
        file = tmp_path / f"{number}.csv"
        assert program("predict", model, folder / "dusk", "--out", file, "--jobs", 1).returncode == 0
        predictions.append([(row["path"], row["class"]) for row in rows(file)])
    expected = [(row["path"], row["class"]) for row in rows(folder / "out" / "predictions.csv")]
    assert predictions == [expected] * 3


def test_adapt_other_options_are_refused(labelled):
    for options, message in (
        (("--k", 3), "--k was not given, is 3 (choose another --out, or pass --force to start again)"),
        (("--seed", 1, "--unlabelled"), "--unlabelled was False, is True; --seed was 0, is 1"),
    ):
        done = program(*arguments(labelled[0], *options))
        assert done.returncode == 1 and message in done.stderr


def test_adapt_the_same_command_again_does_only_what_is_missing(labelled):
    folder, _ = labelled
    out = folder / "out"

    def times() -> dict[Path, int]:
        files = [file for file in out.rglob("*") if file.is_file() and file.name != "lock"]
        return {file: file.stat().st_mtime_ns for file in files}

    before = times()
    done = program(*arguments(folder))
    assert done.returncode == 0 and times() == before
    assert "report.html" in done.stdout and "measuring" not in done.stdout
    for name in ("predictions.csv", "model.json"):
        (out / name).unlink()
    assert program(*arguments(folder)).returncode == 0
    changed = {file.name for file, time in times().items() if before[file] != time}
    assert changed == {"predictions.csv", "model.prototxt", "model.caffemodel", "model.json", "model.onnx"}


def test_adapt_force_replaces_nothing_before_all_options_are_checked(labelled):
    folder, _ = labelled
    out = folder / "out"
    (folder / "bad.caffemodel").write_bytes(b"bad")
    before = {file: file.read_bytes() for file in out.rglob("*") if file.is_file()}
    for weights, message in (
        (folder / "typo.caffemodel", "no such file"),
        (folder / "bad.caffemodel", "3 bytes that are not a caffemodel"),
        (out / "model.caffemodel", "--force deletes it: copy it to another folder"),
    ):
        done = program(*arguments(folder, "--force", "--seed", 1, "--weights", weights))
        assert done.returncode == 1 and f"{weights}: {message}" in done.stderr
        assert {file: file.read_bytes() for file in before} == before


def test_adapt_a_mixture_to_an_unlabelled_target_through_ctrl_c(tmp_path):
    """Their names are of other scripts than ours."""
    mixture, new = "照片", "नदी"
    for look in ("night", "day"):
        plant_domain(tmp_path / look, look, 3)
    for shape in CLASSES:
        (tmp_path / mixture / shape).mkdir(parents=True)
        for look in ("night", "day"):
            for file in (tmp_path / look / shape).iterdir():
                shutil.copyfile(file, tmp_path / mixture / shape / f"{look}{file.name}")
    (tmp_path / new / "2020").mkdir(parents=True)
    for number in range(7):
        cv2.imwrite(str(tmp_path / new / "2020" / f"{number}.png"), picture(CLASSES[number % 3], "dusk", number))
    out = tmp_path / "out"
    command = ("adapt", "--source", tmp_path / mixture, "--target", tmp_path / new, "--out", out, *SMALL)
    code, said = interrupt(*command, at="run:", whole_group=True)
    assert code == 130 and "Traceback" not in said, said
    assert not (out / "predictions.csv").exists()  # on a busy machine the run itself may be over

    done = program(*command)
    assert done.returncode == 0, done.stderr
    assert f"note: {tmp_path / new}: taken as unlabelled" in done.stdout
    assert f"no accuracy on {new}, whose labels are not known" in done.stdout
    assert set(names(out)) == RESULTS
    run = RunFolder.load(out / "run")
    assert run.experiment.k == 2 and run.experiment.sources == (mixture,)
    assert run.read_record().accuracy is None and not (out / "run" / "test.prototxt").exists()
    assert "accuracy" not in {key for key, _ in json.loads((out / "run" / "record.json").read_text()).items() if _}
    assert "Test net output" not in run.log.read_text()
    assert set(read_labels(out / "data" / "out" / new)) == {-1}
    assert [set(row) for row in rows(out / "predictions.csv")] == [{"path", "class", "probability"}] * 7
    assert {row["path"] for row in rows(out / "predictions.csv")} == {f"2020/{number}.png" for number in range(7)}


def test_adapt_clusters_of_style_in_the_place_of_a_branch(tmp_path):
    for look in ("night", "day", "dusk"):
        plant_domain(tmp_path / look, look, 4)
    chosen = ("--method", "style_w", "--k", 2, "--equal-classes")
    done = program(*arguments(tmp_path, *chosen))
    assert done.returncode == 0, done.stderr
    assert "clusters of style as w, k=2, equal classes" in done.stdout
    out = tmp_path / "out"
    assert set(names(out)) == {*RESULTS, OF_CLUSTERS}
    assert [(row["source"], row["domain"]) for row in rows(out / "domains.csv")] in (
        [("night", one)] * 12 + [("day", other)] * 12 for one, other in ("12", "21")
    )
    assert names(out / "data" / "out_style") == ["day", "night"], "of the sources alone"
    folder = RunFolder.load(out / "run")
    assert folder.read_record().domain_usage.purity == 1, "drawn shapes by night and by day"
    assert {part: len(set(file.read_text().split())) for part, file in folder.record_numbers.items()} == {
        "night": 12,
        "day": 12,
    }
    again = program(*arguments(tmp_path, *chosen))
    assert again.returncode == 0 and "out_style/night: built before" in again.stdout


def test_adapt_pictures_are_read_in_every_step_as_they_were_asked_for(tmp_path):
    """Shapes without a ground, and shapes of 12 bits: training, predictions and the lines of Python agree."""
    plant(tmp_path)
    for file in (tmp_path / "dusk").rglob("*.png"):
        image = cv2.imread(str(file))
        cv2.imwrite(str(file), np.dstack([image, 255 * (image.max(2, keepdims=True) < 60).astype(np.uint8)]))
    for file in (tmp_path / "day").rglob("*.png"):
        cv2.imwrite(str(file), cv2.imread(str(file), cv2.IMREAD_GRAYSCALE).astype(np.uint16) * 16)
    done = program(*arguments(tmp_path, "--background", "#204060"))
    assert done.returncode == 0, done.stderr
    assert "note: 6 pictures, such as " in done.stderr and "transparent parts become #204060 (--bac" in done.stderr
    assert "note: 6 pictures of more than 8 bits" in done.stderr and "0 becomes black, 4095 white (--ra" in done.stderr
    out = tmp_path / "out"
    form = read_description(out / "model.json").preprocessing
    assert form.reading == Reading((0x60, 0x40, 0x20), (0, 4095))
    code = re.sub(r"^  ", "", done.stdout.split("with OpenCV alone:\n")[1], flags=re.M)
    for folder, where in (("dusk", "disc/1.png"), ("day", "cross/0.png")):
        file, used = tmp_path / folder / where, {}
        exec(code.replace("image.png", str(file)), used)  # noqa: S102
        datum = read_image(file, Format(form.stored_shape[1:], reading=form.reading)).datum(0)
        (expected,) = form.inputs([datum_image(datum)])
        assert np.abs(used["image"].transpose(2, 0, 1) - expected).max() <= 1.01 * form.scale, folder
        stored = dict(lmdb_records(out / "data" / "out" / folder))
        assert stored[where] == datum.data
    predicted = program("predict", out, tmp_path / "dusk", "--out", tmp_path / "dusk.csv", "--jobs", 1)
    assert predicted.returncode == 0 and "transparent parts become #204060" in predicted.stderr
    assert [row["class"] for row in rows(tmp_path / "dusk.csv")] == [
        row["class"] for row in rows(out / "predictions.csv")
    ]
    again = program(*arguments(tmp_path))
    assert again.returncode == 1 and "--background was #204060, is white (choose" in again.stderr


def lmdb_records(lmdb: Path) -> Iterator[tuple[str, bytes]]:
    """Name and pixels of each record."""
    return ((record_name(key), datum.data) for key, datum in read(lmdb))


def test_adapt_several_targets_of_which_one_is_labelled(tmp_path):
    for look in ("night", "day", "dusk"):
        plant_domain(tmp_path / look, look)
    plant_domain(tmp_path / "dawn", "night", 2)
    for name in CLASSES:
        (tmp_path / "dawn" / name).rename(tmp_path / "dawn" / f"of {name}")
    more = ("--target", tmp_path / "dawn", "--k-target", 2)
    done = program(*arguments(tmp_path, *more))
    assert done.returncode == 0, done.stderr
    assert "dusk (target, labelled): 18 images" in done.stdout and "dawn (target): 6 images" in done.stdout
    out = tmp_path / "out"
    assert set(names(out)) == RESULTS
    found = rows(out / "predictions.csv")
    of_dusk, of_dawn = ([row for row in found if row["path"].startswith(f"{name}/")] for name in ("dusk", "dawn"))
    assert len(of_dusk) == 18 and all(row["true class"] == row["path"].split("/")[1] for row in of_dusk)
    assert len(of_dawn) == 6 and {row["true class"] for row in of_dawn} == {""} and len(found) == 24
    folder = RunFolder.load(out / "run")
    record, correct = folder.read_record(), sum(row["class"] == row["true class"] for row in of_dusk)
    assert folder.experiment.targets == ("dusk", "dawn") and folder.experiment.k_target == 2
    assert list(record.targets) == ["dusk"] and record.accuracy == pytest.approx(correct / 18)
    assert record.target_domain_usage is not None
    assert f"dawn ({tmp_path / 'dawn'})" in (out / "README.txt").read_text()
    again = program(*arguments(tmp_path, "--target", tmp_path / "day", "--k-target", 2))
    assert again.returncode == 1 and "is given twice" in again.stderr
    assert program(*arguments(tmp_path, "--k-target", 2)).stderr.count("begun with other options: --target was ") == 1


def test_adapt_a_class_of_which_no_image_can_be_read_is_not_lost_in_silence(tmp_path):
    plant(tmp_path)
    for file in (tmp_path / "day" / "disc").iterdir():
        file.write_bytes(b"no image")
    done = program(*arguments(tmp_path, "--skip-unreadable"))
    assert done.returncode == 1 and not (tmp_path / "out" / "run").exists()
    lacking = f"{tmp_path / 'day'}: no readable images of disc, which other sources have"
    assert done.stderr.splitlines()[-1].startswith(f"error: {lacking}; check the spelling, ")
    (tmp_path / "out" / "data" / "out" / "dataset.json").mkdir()  # in the way of a run
    done = program(*arguments(tmp_path, "--skip-unreadable", "--allow-missing-classes"))
    assert "note: day: 4 of 6 images are used: the others could not be read\n" in done.stdout
    assert f"note: {lacking}\n" in done.stdout and "dataset.json" in done.stderr.splitlines()[-1]


def test_adapt_a_second_call_in_the_same_folder_changes_nothing(tmp_path):
    plant(tmp_path)
    (tmp_path / "out").mkdir()
    with locked(tmp_path / "out"):
        (tmp_path / "out" / "lock").write_text("process 7 on another machine")
        for options in ((), ("--force",), ("--k", 3)):
            done = program(*arguments(tmp_path, *options))
            assert done.returncode == 1 and "out: it is in use by process 7 on another machine" in done.stderr
    assert names(tmp_path / "out") == ["lock"]


# --- on the features of EfficientNet-Lite0, the default where there is no GPU


@pytest.fixture(scope="module")
def pacs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few pictures of four classes in three domains of PACS."""
    found, folder = sample(tmp_path_factory.mktemp("drawn")), tmp_path_factory.mktemp("pacs")
    for domain in ("art_painting", "photo", "cartoon"):
        for name in PACS.classes[:4]:
            (folder / domain / name).mkdir(parents=True)
            for file in sorted((found / domain / name).iterdir())[:5]:
                shutil.copyfile(file, folder / domain / name / file.name)
    return folder


def on_features(pacs: Path, out: Path, *more: object) -> Done:
    sources = ("--source", pacs / "art_painting", "--source", pacs / "photo")
    quick = ("--k", 2, "--solver-mode", "CPU", "--iterations", 30, "--threads", "1", "--jobs", 2)
    return program("adapt", *sources, "--target", pacs / "cartoon", "--out", out, *quick, *more)


@pytest.fixture(scope="module")
def adapted(pacs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done]:
    """The folder of a task that was interrupted while features were extracted, and called again; what it said then."""
    out, calls, features = tmp_path_factory.mktemp("lite0") / "out", [], OnnxBackbone.features

    def interrupted(self: OnnxBackbone, picture: object) -> object:
        calls.append(1)
        if len(calls) == 30:
            raise KeyboardInterrupt
        return features(self, picture)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(OnnxBackbone, "features", interrupted)
        done = on_features(pacs, out)
    assert done.returncode == 130 and done.stderr.endswith("interrupted\n"), done.stderr
    assert names(out / "data" / "out_lite0") == ["art_painting"] and not (out / "run").exists()
    done = on_features(pacs, out)
    assert done.returncode == 0, done.stderr
    return out, done


def test_adapt_features_are_what_is_trained_on(adapted, pacs):
    out, done = adapted
    assert set(names(out)) == {*RESULTS, *ON_FEATURES_ALONE} and done.stdout.count(": built before\n") == 4
    title = "clusters of style as w, k=2"
    assert f"{title} on features of lite0, 30 iterations" in done.stdout
    assert f"note: {pacs / 'photo'}: 5 images of " in done.stdout
    experiment = RunFolder.load(out / "run").experiment
    assert (experiment.net.network, experiment.data.features.images, experiment.data.early) == ("features", "out", 80)
    assert (experiment.recipe.batch_size, experiment.recipe.lambda_m, experiment.recipe.base_lr) == (30, 0.1, 0.001)
    settings = json.loads((out / "settings.json").read_text())
    assert (settings["--network"], settings["--method"], settings["--lambda-d"]) == ("lite0", "style_w", None)
    assert len(rows(out / "domains.csv")) == 40
    again = on_features(pacs, out)
    assert again.returncode == 0 and "measuring" not in again.stdout and again.stdout.count(": built before\n") == 8


def test_adapt_what_adaptation_was_worth_is_said(adapted, pacs):
    out, done = adapted
    report = (out / "report.html").read_text()
    for name in ("logistic", "logistic_own_z"):
        record = json.loads((out / "baselines" / f"{name}.json").read_text())
        found, title = record["baseline"], BASELINES[name]
        assert (found["method"], found["sources"], found["targets"]) == (name, ["art_painting", "photo"], ["cartoon"])
        assert (found["source_images"], found["target_images"], found["features"]) == (40, 20, 1280)
        line = f"{100 * record['accuracy']:.2f} % on the same features by {title}\n"
        assert line in done.stdout and line in (out / "README.txt").read_text() and title in report
    choice = Choice.read(out / "choice.json")
    assert set(choice.held_out) == {"art_painting", "photo"}
    first = f"{100 * choice.accuracy(choice.chosen):.2f} % on cartoon by the model, {CANDIDATES[choice.chosen]}\n"
    assert first in done.stdout and "25.00 % by guessing\n" in done.stdout and f"({choice.reason})\n" in done.stdout
    files = [out / "baselines" / "logistic.json", out / "choice.json", out / "report.html"]
    before = [file.stat().st_mtime_ns for file in files]
    assert on_features(pacs, out).returncode == 0 and [file.stat().st_mtime_ns for file in files] == before


def test_adapt_the_model_is_one_net_from_picture_to_class(adapted, pacs, tmp_path):
    out, done = adapted
    for engine in ("Caffe", "ONNX Runtime", "OpenCV 4"):
        assert re.search(rf"^{engine}.*, from picture to class: top-1 of 16 of 16 pictures", done.stdout, re.M), engine
    found = rows(out / "predictions.csv")
    correct = sum(row["class"] == row["true class"] for row in found)
    choice = Choice.read(out / "choice.json")
    assert choice.accuracy(choice.chosen) == pytest.approx(correct / len(found)) and len(found) == 20
    done = program("predict", out / "model.caffemodel", pacs / "cartoon", "--out", tmp_path / "caffe.csv", "--jobs", 1)
    assert done.returncode == 0, done.stderr
    for row, of_caffe in zip(found, rows(tmp_path / "caffe.csv"), strict=True):
        assert (row["path"], row["class"]) == (of_caffe["path"], of_caffe["class"])
        assert float(row["probability"]) == pytest.approx(float(of_caffe["probability"]), abs=1e-4)
    done = program("predict", out / "run", pacs / "cartoon", "--out", tmp_path / "run.csv")
    assert done.returncode == 1 and "features of lite0, expected a net that takes images: python" in done.stderr
    assert f"tools.export {shlex.quote(str(out / 'run'))} MODEL makes one of it" in done.stderr


def test_adapt_the_lines_of_python_that_it_prints_predict_the_same(adapted, pacs, tmp_path):
    out, done = adapted
    code, row = done.stdout.split("with OpenCV alone:\n")[1], rows(out / "predictions.csv")[9]
    image = str(pacs / "cartoon" / row["path"])
    (tmp_path / "use.py").write_text(re.sub(r"^  ", "", code, flags=re.M).replace("image.jpg", image))
    said = subprocess.run([sys.executable, tmp_path / "use.py"], capture_output=True, text=True, cwd=ROOT, check=False)
    assert said.stdout.strip() == row["class"], said.stderr


def test_adapt_another_choice_and_features_of_other_weights_are_refused(adapted, pacs, tmp_path):
    out, _ = adapted
    refused = "--network was lite0, is mnist; --method was style_w, is mda"
    assert refused in on_features(pacs, out, "--network", "mnist").stderr
    shutil.copytree(out, tmp_path / "out")
    edit(tmp_path / "out" / "run" / "experiment.json", str(out), str(tmp_path / "out"))  # it reads the copy
    note = tmp_path / "out" / "data" / "out_lite0" / "photo" / "source.json"
    note.write_text(note.read_text().replace(LITE0.weights[0].file.hashes["sha256"], "0" * 64))
    done = on_features(pacs, tmp_path / "out")
    assert f"{note.parent}: made with weights '{'0' * 64}' instead of '5793" in done.stderr.splitlines()[-1]


# --- fine-tuned after its features, --fine-tune


@pytest.fixture(scope="module")
def fine_tuned(pacs: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Done, tuple[object, ...]]:
    """The folder of a task that was interrupted before the net was trained; what the last call said; the command."""
    out = tmp_path_factory.mktemp("fine_tuned") / "out"
    sources = ("--source", pacs / "art_painting", "--source", pacs / "photo", "--target", pacs / "cartoon")
    quick = ("--image-size", 64, "--iterations", 4, "--batch-size", 24, "--threads", "1", "--jobs", 2)
    net = ("--fine-tune", "--weights", in_package(LITE0.weights[0].file), "--solver-mode", "CPU")
    command = ("adapt", *sources, "--out", out, *net, *quick)
    calls, measure, find = [], training.measure_iteration, style.find_style_domains

    def interrupted(folder: RunFolder, threads: int | None) -> tuple[int, float]:
        calls.append(folder.path)
        if folder.path == out / "run":
            raise KeyboardInterrupt
        return measure(folder, threads)

    with pytest.MonkeyPatch.context() as patch:
        # Forty pictures are counted as one domain or two, by the processor; three are not the number of sources.
        patch.setattr(style, "find_style_domains", lambda rows, classes, k, seed: find(rows, classes, k or 3, seed))
        patch.setattr(training, "measure_iteration", interrupted)
        done = program(*command)
        assert done.returncode == 130 and done.stderr.endswith("interrupted\n"), done.stderr
        assert calls == [out / "features" / "run", out / "run"] and (out / "features" / "report.html").exists()
        patch.setattr(training, "measure_iteration", measure)
        done = program(*command)
        assert done.returncode == 0, done.stderr
    return out, done, command


def test_adapt_a_fine_tuned_net_and_what_its_features_alone_got(fine_tuned):
    out, done, _ = fine_tuned
    assert set(names(out)) == {*RESULTS, *ON_FEATURES_ALONE, "features", "weights"} - {"held_out"}
    assert set(names(out / "features")) == {*RESULTS, *ON_FEATURES_ALONE, "discovery.html"} - {"lock", "settings.json"}
    tuned, alone = RunFolder.load(out / "run"), RunFolder.load(out / "features" / "run")
    net = tuned.experiment.net
    assert (net.network, net.image_size, tuned.experiment.recipe.iterations) == ("lite0", 64, 4)
    assert alone.experiment.method == tuned.experiment.method  # with as many domains as were counted once
    assert tuned.experiment.k == 3
    assert tuned.experiment.data.images == alone.experiment.data.images == "out"
    assert len(rows(out / "predictions.csv")) == 20
    choice = Choice.read(out / "features" / "choice.json")
    features = f"{100 * choice.accuracy(choice.chosen):.2f} % on cartoon by the model, {CANDIDATES[choice.chosen]}"
    before, after = done.stdout.split("Next step: fine-tune the whole net lite0.\n")
    assert f"{out / 'features'}: {features}\n" in before and "on the same features by logistic regression\n" in before
    assert re.search(r"[\d.]+ s: about \d+ s for \d+ iterations of 24 images, with tests\. Ctrl-C stops", after)
    of_net = Choice.read(out / "choice.json")
    assert of_net.held_out == choice.held_out and of_net.accuracy("head") == tuned.read_record().accuracy
    model = f"{100 * of_net.accuracy(of_net.chosen):.2f} % on cartoon by the model, {of_net.words[of_net.chosen]}\n"
    lines = (
        f"{out}: {model}",
        f"({of_net.reason})\n{out / 'features'}: {features}\n",
        f"No label of the target chooses: {out / 'model'} is the fine-tuned net, ",
    )
    for text in (after, (out / "README.txt").read_text()):
        assert all(line in text for line in lines)
    report = (out / "report.html").read_text()
    assert f"{tuned.experiment.title} on lite0" in report and alone.experiment.title in report
    assert "on features of lite0" in report and BASELINES["logistic"] in report


def test_adapt_once_it_is_fine_tuned_nothing_is_done_again_and_other_options_are_refused(fine_tuned):
    out, _, command = fine_tuned
    files = [file for file in out.rglob("*") if file.is_file() and file.name != "lock"]
    before = {file: file.stat().st_mtime_ns for file in files}
    done = program(*command)
    assert done.returncode == 0 and "measuring" not in done.stdout, done.stderr
    assert {file: file.stat().st_mtime_ns for file in files} == before
    without = [option for option in command if option not in ("--fine-tune", "--image-size", 64)]
    (out / "run").rename(out / "away")  # as if it had been interrupted before there was a run on images
    for name in ("away", "run"):
        refused = program(*without)
        (out / name).rename(out / "run")
        assert "--fine-tune was True, is False; --image-size was 64, is not given" in refused.stderr
