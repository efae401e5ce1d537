"""Every program names what is wrong with its input in one line, and leaves nothing half-written.

A row is a command line, the words that its error must have, and what is done to copies of the inputs first. Which
inputs are copied, the row's words say (``tests/contracts/inputs.py``). How the error is worded is free.
"""

import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from latent_domains.common.program import ROOT
from tests.contracts.inputs import NET, write_weights
from tests.contracts.wrong import (
    Wrong,
    arrays,
    changed,
    copied,
    cut,
    edited,
    lmdb_of,
    missing,
    of_another_kind,
    written,
)
from tests.programs import program


class Row(NamedTuple):
    line: str
    named: str | tuple[str, ...]
    wrong: Wrong | None = None
    needs: str = ""
    """Further inputs that ``wrong`` changes or the command reads."""


def other_classes(one: str, other: str) -> Wrong:
    """Of two LMDBs the second has the first two classes in another order."""

    def wrong(folder: Path) -> None:
        written(f"{one}/classes.txt", "a\nb\nc\n")(folder)
        written(f"{other}/classes.txt", "b\na\nc\n")(folder)

    return wrong


def all_the_same(name: str) -> Wrong:
    """Every picture of a folder is its first one."""

    def wrong(folder: Path) -> None:
        first, *others = sorted((folder / name).rglob("*.png"))
        for other in others:
            shutil.copyfile(first, other)

    return wrong


def infinite(layer: str, file: str) -> Wrong:
    """A number of a layer's first blob is not finite."""

    def change(net) -> None:
        next(one for one in net.layer if one.name == layer).blobs[0].data[0] = float("nan")

    return lambda folder: write_weights(folder / file, change)


ROWS, LABELS = np.arange(24.0).reshape(6, 4), np.array([1, 2, 3, 1, 2, 3])
IMPORT = "import_features --domain one=arrays/one.mat --domain two=arrays/two.npz --out out/mine"
PREDICT = "predict model/m night --out out/a.csv --jobs 1"
FORK = "convert_fork fork/net.prototxt fork/net.caffemodel out/f"
EXPORT = "export --net model/m.prototxt --weights model/m.caffemodel out/m"
ONNX = "export_onnx model/m.prototxt model/m.caffemodel out/m.onnx"
TORCH = "convert_torch none.pth out/m"
BASELINES = "baselines gong2013 --dataset office31_fc7 --data features --sources dslr --targets webcam out/r.json"
EXTRACT = "extract_features pacs --onnx small.onnx --data pacs_lmdbs --out out"
DISCOVER = "discover night --out out/d"
ADAPT = "adapt --source night --source day --target dusk --network mnist --batch-size 8 --jobs 1 --out out/t"
JOIN = "join_lmdbs lmdbs/night lmdbs/day"
INFINITE = np.full((4096, 6), [1, 1, 1, np.inf, 1, 1]).T
EXTRACT_BOTH = "extract_features both --backbone lite0 --out out"
WRITE = "tables experiments/tiny.yaml --runs out --data data --write"
MDA = ROOT / "prototxt/mnist/digits_deploy.prototxt"
INPUT = 'layer { name: "im" type: "Input" top: "im" input_param { shape { dim: 1 } } }'
DSLR = "features/office31_fc7/dslr"

TABLE = [
    Row("build_lmdb night out/db --resize 0x5", "'0x5'"),
    Row("build_lmdb night out/db --root x", "--root"),
    Row("build_lmdb list.txt out/db --folders-are-classes", "list.txt"),
    Row("build_lmdb absent.txt out/db", "absent.txt"),
    Row("build_lmdb night night/db", "night/db"),
    Row("build_lmdb night/disc/0.png out/db", ("0.png", "line 1")),
    Row("build_lmdb night out/db", "night/disc/1.png", cut("night/disc/1.png")),
    Row("build_lmdb list.txt out/db --root night", "disc/1.png", missing("night/disc/1.png")),
    Row("build_lmdb night out/db --classes classes.txt", "square", written("classes.txt", "cross\ndisc\n")),
    Row("build_lmdb both out/db", ("day, night", "cross, disc, square", "--folders-are-classes")),
    Row("join_lmdbs lmdbs/night out/db", "at least two LMDBs"),
    Row(f"{JOIN} out/db --shares 80:30", "80:30"),
    Row(f"{JOIN} out/db --shares 80:0:20", "--shares"),
    Row("join_lmdbs lmdbs/night lmdbs/empty out/db", "lmdbs/empty"),
    Row("join_lmdbs lmdbs/night lmdbs/gray out/db", ("lmdbs/gray", "1×28×28", "lmdbs/night", "3×28×28")),
    Row("join_lmdbs lmdbs/night lmdbs/encoded out/db", ("lmdbs/encoded", "encoded", "raw")),
    Row("join_lmdbs lmdbs/night lmdbs/uneven out/db", ("lmdbs/uneven", "several sizes")),
    Row("join_lmdbs lmdbs/night lmdbs/night/../night out/db", ("lmdbs/night", "twice")),
    Row("join_lmdbs lmdbs/night lmdbs/day/night out/db", "night, night", copied("lmdbs/night", "lmdbs/day/night")),
    Row(f"{JOIN} lmdbs", "lmdbs"),
    Row(f"{JOIN} lmdbs/night/in --force", "lmdbs/night/in"),
    Row("join_lmdbs lmdbs/night lmdbs/gray lmdbs/day --force", "lmdbs/day"),
    Row(f"{JOIN} out/db", "day/classes.txt", other_classes("lmdbs/night", "lmdbs/day")),
    Row("get_data pacs --images pacs_images/nothing --out out", "pacs_images/nothing"),
    Row(PREDICT, ("model/m", "3", "2"), changed("model/m.json", classes=["cat", "dog"])),
    Row(PREDICT, ("m.json", "classes"), changed("model/m.json", classes=["cat", "cat", "dog"])),
    Row(PREDICT, ("m.json", "crop", "21"), changed("model/m.json", preprocessing={"crop": 21})),
    Row(PREDICT, ("m.json", "100000000"), changed("model/m.json", preprocessing={"stored_shape": [3, 20000, 20000]})),
    Row(PREDICT, ("m.json", "mean"), changed("model/m.json", preprocessing={"mean": [float("nan")]})),
    Row(PREDICT, ("m.json", "scale"), changed("model/m.json", preprocessing={"scale": float("inf")})),
    Row(PREDICT, ("m.json", "'more'"), changed("model/m.json", more=1)),
    Row(PREDICT, "m.json", missing("model/m.json")),
    Row(PREDICT, "m.caffemodel", missing("model/m.caffemodel")),
    Row(PREDICT, ("m.caffemodel", "truncated"), cut("model/m.caffemodel")),
    Row(PREDICT, "m.prototxt", missing("model/m.prototxt")),
    Row(PREDICT, "m.onnx", written("model/m.onnx", "no model")),
    Row("predict model/m none --out out/a.csv", "none"),
    Row("predict model/m model --out out/a.csv", "model: no images"),
    Row("predict model/m list.txt --out out/a.csv", "none of the images"),
    Row("predict model/m night/disc/0.png --out night/disc/0.png --force", "0.png"),
    Row("predict features night --out out/a.csv", "features"),
    Row("evaluate written", "iteration 0"),
    Row("evaluate night", "night"),
    Row("export written out/m", ("iteration 0", "tools.train")),
    Row("export night out/m", "night"),
    Row("export out", "--net"),
    Row("export written out/m --scale 1", "run folder"),
    Row("export written out/m more", "more"),
    Row(EXPORT, "m.prototxt: its inputs are data, im", written("model/m.prototxt", NET + INPUT)),
    Row(EXPORT, ("m.caffemodel", "fc"), infinite("fc", "model/m.caffemodel")),
    Row(f"{EXPORT} --mean 104 117", "--mean"),
    Row(f"{EXPORT} --images classes.txt", "classes.txt"),
    Row(f"{EXPORT} --force", "m.json", written("out/m.json", "of a run")),
    Row(EXPORT.replace("out/m", "model/m --force"), "model/m."),
    Row(f"{ONNX} --mean 1 2", "--mean"),
    Row(f"export_onnx {MDA} model/m.caffemodel out/m.onnx", ("digits_deploy", "conv1_mda", "MDALayer")),
    Row("export_onnx written/train.prototxt model/m.caffemodel out/m.onnx", ("train.prototxt", "Data")),
    Row(ONNX, "m.caffemodel", of_another_kind("model/m.caffemodel")),
    Row(FORK, ("net.prototxt", "CLASSES")),
    Row([*FORK.split(), "--set", "CLASSES=10 } layer {"], "CLASSES=10 } layer {"),
    Row(f"{FORK} --set CLASSES=10 --set CLASSES=7", "CLASSES"),
    Row(f"{FORK} --set CLASSES=10", "net.prototxt", cut("fork/net.prototxt")),
    Row(f"{FORK} --set CLASSES=10", "net.prototxt", missing("fork/net.prototxt")),
    Row(f"{FORK} --set CLASSES=10", "net.caffemodel", of_another_kind("fork/net.caffemodel")),
    Row(TORCH, "none.pth"),
    Row(f"{TORCH} --mean 123.675 116.28 103.53", ("--mean", "123.675")),
    Row(f"{TORCH} --std 0 1 1", ("--std", "'0'")),
    Row(f"{TORCH} --num-domains 1", "--num-domains"),
    Row(f"{TORCH} --num-domains 4 --no-mda", "--no-mda"),
    Row("convert_torch torch/lite0.pth out/m", ("lite0.pth", "truncated"), cut("torch/lite0.pth")),
    Row("convert_torch torch/lite0.pth out/m --std 1 1 1", ("EfficientNet-Lite0", "--mean")),
    Row(IMPORT, ("two.npz", "5 labels", "6 rows"), arrays("arrays/two.npz", X=ROWS, y=LABELS[:5])),
    Row(IMPORT, ("two.npz", "transpose"), arrays("arrays/two.npz", X=ROWS.T, y=LABELS)),
    Row(IMPORT, ("two.npz", "found X", "--labels"), arrays("arrays/two.npz", X=ROWS)),
    Row(IMPORT, ("two.npz", "found A, y", "fts, feas"), arrays("arrays/two.npz", A=ROWS, y=LABELS)),
    Row(IMPORT, ("two.npz", "X, x", "--features"), arrays("arrays/two.npz", X=ROWS, x=ROWS, y=LABELS)),
    Row(IMPORT, ("two.npz", "6×6"), arrays("arrays/two.npz", X=ROWS, y=np.eye(6))),
    Row(IMPORT, ("two.npz", "row 3, column 2"), arrays("arrays/two.npz", X=np.where(ROWS == 9, np.nan, 1), y=LABELS)),
    Row(IMPORT, ("two.npz", "0.5 in row 1"), arrays("arrays/two.npz", X=ROWS, y=LABELS / 2)),
    Row(IMPORT, ("two.npz", "inf in row 1"), arrays("arrays/two.npz", X=ROWS, y=LABELS + np.inf)),
    Row(IMPORT, ("two.npz", "Object arrays"), arrays("arrays/two.npz", X=np.array([{}] * 6), y=LABELS)),
    Row(IMPORT, ("two", "5 features", "one"), arrays("arrays/two.npz", X=np.ones((6, 5)), y=LABELS)),
    Row(IMPORT, "two.npz", of_another_kind("arrays/two.npz")),
    Row(IMPORT, "two.npz", missing("arrays/two.npz")),
    Row(IMPORT, ("one.mat", "MATLAB 7.3"), written("arrays/one.mat", b"MATLAB 7.3 MAT-file".ljust(124) + b"\0\2IM")),
    Row(f"{IMPORT} --domain three=classes.txt", (".txt", ".mat, .npz")),
    Row(f"{IMPORT} --features fts", ("two.npz", "X, y", "fts")),
    Row(f"{IMPORT} --domain one=x.mat", "one is given twice"),
    Row(f"{IMPORT} --domain three=arrays/one.mat", "arrays/one.mat"),
    Row(f"{IMPORT} --domain a+b=x.mat", "a+b=x.mat"),
    Row(IMPORT.replace("mine", "pacs"), "'pacs'"),
    Row(BASELINES, DSLR, missing(DSLR)),
    Row(BASELINES, (DSLR, "800×1×1", "4096×1×1"), lmdb_of(DSLR, np.ones((6, 800)), range(6))),
    Row(BASELINES, (DSLR, "record 3"), lmdb_of(DSLR, INFINITE, range(6))),
    Row(BASELINES, "class 4", lmdb_of(DSLR, np.eye(6, 4096), [4] * 6)),
    Row(BASELINES, "single sample", lmdb_of(DSLR, np.eye(4, 4096), [0, 0, 0, 1])),
    Row(BASELINES, "webcam/classes.txt", other_classes(DSLR, "features/office31_fc7/webcam")),
    Row("baselines svm --dataset office31 --data features out/r.json", ("office31", "3×227×227")),
    Row("baselines svm --dataset digits --k 2 out/r.json", "--k"),
    Row("baselines svm --dataset digits --classifier svm out/r.json", "--classifier"),
    Row("baselines hoffman2012 --dataset digits --min-domain 9 out/r.json", "min-domain"),
    Row("baselines gong2013 --dataset digits --k two out/r.json", "'two'"),
    Row("baselines gong2013 --dataset digits --max-k 1 out/r.json", "--max-k"),
    Row("extract_features digits --weights w", "'digits'"),
    Row("extract_features office31", "--weights"),
    Row("extract_features night --weights w --domains disc", "--domains"),
    Row("extract_features pacs --backbone lite0 --folders-are-classes", "--folders-are-classes"),
    Row("extract_features office31 --weights w --layer fc6", "--layer"),
    Row("extract_features pacs --onnx x --scale nan", "'nan'"),
    Row("extract_features pacs --style --backbone lite0", "--style"),
    Row(f"{EXTRACT} --layer fc7", "'fc7'"),
    Row(f"{EXTRACT} --name a/b", "'a/b'"),
    Row(f"{EXTRACT} --name lite0", "lite0"),
    Row(f"{EXTRACT} --name style", "style"),
    Row("extract_features one --backbone lite0 --out out", "one: 1 folder", copied("night", "one/night"), "night"),
    Row("extract_features both --weights classes.txt --out out", ("'both'", "office31")),
    Row(EXTRACT_BOTH, ("both/dusk", "images"), copied("night", "both/dusk/images"), "night"),
    Row("draw model/m.prototxt other/m.prototxt --out out", "model/m.prototxt, other/m", copied("model", "other")),
    Row("draw model/m.prototxt --out out", "m.prototxt", of_another_kind("model/m.prototxt")),
    Row("discover nowhere --out out/d", "nowhere"),
    Row("discover both --out out/d", ("both/day", "domains")),
    Row(f"{DISCOVER} night", "night", None),
    Row("discover night/disc --out out/d", ("night/disc", "--unlabelled")),
    Row("discover night --out night/out", "night/out"),
    Row(f"{DISCOVER} --k 0", "--k"),
    Row(f"{DISCOVER} --onnx model.onnx", "--early"),
    Row(f"{DISCOVER} --early a", ("--early", "--onnx")),
    Row(f"{DISCOVER} --unlabelled --folders-are-classes", "--folders-are-classes"),
    Row(DISCOVER, ("night/disc/1.png", "--skip-unreadable"), of_another_kind("night/disc/1.png")),
    Row(f"{DISCOVER} --k 200", "200"),
    Row("bench --only speed", ("speed", "batchnorm-384")),
    Row("bench --threads 100000", "--threads"),
    Row("bench --seconds 1e300", "1e300"),
    Row("demo --iterations none", "--iterations"),
    Row("get_weights none", "none"),
    Row("nets --force", "--force"),
    Row("pages none.md", "none.md"),
    Row("report night --out out/r.html", "night"),
    Row("report out/r.html", "out/r.html"),
    Row("tables experiments/none.yaml", "none.yaml"),
    Row("tables experiments/tiny.yaml --out out", "tiny.yaml", edited("experiments/tiny.yaml", "[0]", "[x]")),
    Row(f"{WRITE} mda_k9_seed0", ("tiny.yaml", "mda_k9_seed0", "mda_")),
    Row(f"{WRITE} svm_mnist+mnistm-usps_seed0", "svm_mnist+mnistm-usps_seed0"),
    Row("train night", "night"),
    Row("train written", "train.prototxt", cut("written/train.prototxt")),
    Row("watch --once night", "night"),
    Row("watch --once written", "experiment.json", written("written/experiment.json", "{")),
    Row("write_run --method dial --k 3 out/run", ("k: got 3", "dial")),
    Row("write_run --dataset dataset.json --data data out/run", "dataset.json", cut("dataset.json")),
    Row(f"{ADAPT} --weights none.caffemodel", "none.caffemodel"),
    Row(f"{ADAPT} --weights classes.txt", "classes.txt"),
    Row(f"{ADAPT} --k 0", "k: found 0"),
    Row(f"{ADAPT} --image-size 64", "image_size"),
    Row(ADAPT.replace("mnist", "lite0").replace("--batch-size 8", "--batch-size 2"), "batch size: got 2"),
    Row(ADAPT.replace("out/t", "out/a,b"), "a,b"),
    Row(ADAPT.replace("out/t", "out"), ("out", "settings.json"), written("out/thesis.tex", "")),
    Row(f"{ADAPT} --force".replace("out/t", "out"), ("out", "settings.json"), written("out/thesis.tex", "")),
    Row(ADAPT.replace("out/t", "classes.txt"), "classes.txt"),
    Row(ADAPT.replace("source day", "source model"), "model: no folders in it"),
    Row(ADAPT.replace("source day", "source night"), "night"),
    Row(ADAPT, ("day/disc/1.png", "--skip-unreadable"), cut("day/disc/1.png")),
    Row(f"{ADAPT} --domains classes.txt", "classes.txt"),
    Row(ADAPT, ("dusk", "12 images are the same"), all_the_same("dusk")),
]  # fmt: skip


def name(row: Row) -> str:
    return row.line if isinstance(row.line, str) else " ".join(row.line)


@pytest.mark.program
@pytest.mark.parametrize("row", TABLE, ids=[f"{number}-{name(row)[:60]}" for number, row in enumerate(TABLE)])
def test_programs_name_what_is_wrong_in_one_line(row: Row, place: Callable[[str], Path]) -> None:
    words = row.line.split() if isinstance(row.line, str) else row.line
    folder = place(f"{name(row)} {row.needs}")
    if row.wrong:
        row.wrong(folder)
    before = files(folder)
    done = program(*words)
    assert done.returncode == (2 if done.stderr.startswith("usage:") else 1), done.stdout + done.stderr
    errors = [line for line in done.stderr.splitlines() if re.match(r"(python -m tools\.\w+: )?error: ", line)]
    assert errors == done.stderr.splitlines()[-1:] and "Traceback" not in done.stderr, done.stderr
    for word in (row.named,) if isinstance(row.named, str) else row.named:
        assert word in errors[0]
    assert {file for file in files(folder) - before if not ALLOWED.match(file)} == set()


def test_every_program_has_a_row() -> None:
    programs = {file.stem for file in (ROOT / "tools").glob("*.py")} - {"__init__", "on_free_gpu"}
    assert programs == {name(row).split()[0] for row in TABLE}


ALLOWED = re.compile(r"out/t/(lock|settings\.json|data(/.*)?)$|written/(lock|failure\.json)$|out/d/statistics(/.*)?$")
"""What adapt, discover and train keep for the next call, which goes on from there."""


def files(folder: Path) -> set[str]:
    found = (path for path in folder.rglob("*") if not path.is_dir() or not any(path.iterdir()))
    return {path.relative_to(folder).as_posix() for path in found}
