"""A command of each program that makes something, on valid inputs: what is made lies in ``out``."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Command:
    """A command line, run in a folder with copies of the inputs that it or ``needs`` names."""

    line: str
    """Without ``python -m tools.``"""
    files: tuple[str, ...]
    """Patterns of the files that it reads: faults may happen to these."""
    needs: str = ""
    goes_on: bool = False
    """Whether the same command takes up what is there. Others refuse an output that is there, unless by --force."""
    seconds: float = 60
    """What is longer counts as a hang, on a busy machine too."""

    @property
    def program(self) -> str:
        return self.line.split()[0]

    @property
    def arguments(self) -> list[str]:
        return self.line.split()[1:]


_MODEL = ("model/m.*",)
_RUN = ("trained/*.prototxt", "trained/*.json", "trained/train.log", "trained/snapshots/*")
_IMAGES = ("night/*/*.png",)
COMMANDS = (
    Command("build_lmdb list.txt out/lmdb --root night --resize 8x8 --jobs 1", ("list.txt", *_IMAGES)),
    Command("build_lmdb night out/lmdb --classes classes.txt --encoded jpg --jobs 2", ("classes.txt", *_IMAGES)),
    Command("join_lmdbs lmdbs/night lmdbs/day out/lmdb", ("lmdbs/night/*", "lmdbs/day/*"), goes_on=True),
    Command(
        "get_data pacs --images pacs_images --out out --allow-incomplete --jobs 1", ("pacs_images/*/*/*",), goes_on=True
    ),
    Command(
        "import_features --domain a=arrays/one.mat --domain b=arrays/two.npz --out out/mine",
        ("arrays/*",),
        goes_on=True,
    ),
    Command("baselines svm --dataset office31_fc7 --data features out/r.json", ("features/*/*/data.mdb",)),
    Command(
        "extract_features pacs --onnx small.onnx --data pacs_lmdbs --out out --size 32", ("small.onnx",), goes_on=True
    ),
    Command("predict model/m night --out out/a.csv --jobs 1", (*_MODEL, *_IMAGES)),
    Command("discover night --k 2 --out out/d --jobs 1", _IMAGES),
    Command("evaluate out/trained", (), "data", goes_on=True),
    Command("export trained out/m", _RUN, "data"),
    Command("export_onnx model/m.prototxt model/m.caffemodel out/m.onnx", _MODEL[:1]),
    Command("convert_fork fork/net.prototxt fork/net.caffemodel out/f --set CLASSES=10", ("fork/net.*",)),
    Command("convert_torch torch/lite0.pth out/r --no-verify", ("torch/*",)),
    Command(
        "draw written/train.prototxt model/m.prototxt --out out",
        ("written/train.prototxt", "model/m.prototxt"),
        goes_on=True,
    ),
    Command("report trained --out out/r.html", _RUN, "data", goes_on=True),
    Command(
        "tables experiments/tiny.yaml --runs records --data data --out out",
        ("experiments/tiny.yaml", "records/digits/*/record.json"),
        goes_on=True,
    ),
    Command("write_run --dataset dataset.json --k 2 --data data out/run", ("dataset.json",)),
    Command("train --resume --threads 1 out/written", ("data/digits/*/data.mdb",), "data", goes_on=True, seconds=180),
    Command(
        "adapt --source night --source day --target dusk --out out/task --network mnist --iterations 4 --batch-size 8 "
        "--threads 1 --jobs 1",
        ("night/*/*", "dusk/*/*"),
        goes_on=True,
        seconds=300,
    ),
)
