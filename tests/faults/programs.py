"""What the campaign runs: each row a command on copies of valid inputs."""

import sys
from dataclasses import dataclass


@dataclass(frozen=True)
class Program:
    """A command line, run in a folder with copies of ``inputs``; what it makes lies in ``out``."""

    module: str
    arguments: str
    inputs: tuple[str, ...]
    """Of the valid ones. NAME>PLACE: it lies at PLACE."""
    damaged: tuple[str, ...]
    """Patterns of the files that faults may happen to."""
    share: int
    """Of all cases, against those of the others."""
    goes_on: bool = False
    """Whether the same command takes up what is there. Others refuse an output that is there, unless by --force."""
    force: bool = True
    """Whether it has this option."""
    seconds: float = 60
    """What is longer counts as a hang, on a busy machine too."""

    @property
    def name(self) -> str:
        return self.module.removeprefix("tools.")

    @property
    def argv(self) -> list[str]:
        return self.arguments.split()

    def command(self, *more: str) -> list[str]:
        """As a new process."""
        return [sys.executable, "-m", self.module, *self.argv, *more]


_MODEL = ("model.prototxt", "model.caffemodel", "model.json")
_RUN = ("run/*.prototxt", "run/*.json", "run/train.log", "run/snapshots/*")
_IMAGES = ("night/*/*.png",)
PROGRAMS = (
    Program(
        "tools.build_lmdb",
        "list.txt out/lmdb --root night --resize 8x8 --jobs 1",
        ("list.txt", "night"),
        ("list.txt", *_IMAGES),
        90,
    ),
    Program(
        "tools.build_lmdb",
        "night out/lmdb --classes classes.txt --encoded jpg --jobs 2",
        ("classes.txt", "night"),
        ("classes.txt", *_IMAGES),
        80,
    ),
    Program("tools.join_lmdbs", "lmdb/night lmdb/day out/lmdb", ("lmdb",), ("lmdb/*/*",), 130, True),
    Program(
        "tools.get_data",
        "pacs --images pacs --out out --allow-incomplete --jobs 1",
        ("pacs",),
        ("pacs/*/*/*",),
        110,
        True,
    ),
    Program("tools.predict", "model night --out out/a.csv --jobs 1", (*_MODEL, "night"), (*_MODEL, *_IMAGES), 40),
    Program("tools.discover", "night --k 2 --out out/d --jobs 1", ("night",), _IMAGES, 20),
    Program("tools.predict", "run night --out out/a.csv --jobs 1", ("run", "data", "night"), _RUN, 20),
    Program(
        "tools.evaluate",
        "out/run",
        ("run>out/run", "data"),
        (*(f"out/{pattern}" for pattern in _RUN), "data/digits/*_test/data.mdb"),
        25,
        True,
        False,
    ),
    Program("tools.export", "run out/m", ("run", "data"), _RUN, 20),
    Program(
        "tools.export",
        "--net model.prototxt --weights model.caffemodel --images night out/m",
        (*_MODEL, "night"),
        (*_MODEL[:2], *_IMAGES),
        20,
    ),
    Program("tools.export_onnx", "model.prototxt model.caffemodel out/m.onnx", _MODEL, _MODEL[:2], 30),
    Program(
        "tools.convert_fork",
        "fork.prototxt fork.caffemodel out/f --set CLASSES=10",
        ("fork.prototxt", "fork.caffemodel"),
        ("fork.*",),
        30,
    ),
    *(
        Program("tools.convert_torch", f"{name} out/r --no-verify --num-domains 2", (name,), (name,), 22)
        for name in ("resnet.pth", "legacy.pth", "resnet.safetensors", "resnet.t7")
    ),
    Program(
        "tools.draw",
        "run/train.prototxt model.prototxt --out out",
        ("run", "model.prototxt"),
        ("run/train.prototxt", "model.prototxt"),
        120,
        True,
        False,
    ),
    Program("tools.report", "run --out out/r.html", ("run", "data"), _RUN, 25, True, False),
    Program(
        "tools.tables",
        "experiments/tiny.yaml --runs runs --data data --out out",
        ("experiments", "runs", "data"),
        ("experiments/tiny.yaml", "runs/digits/*/record.json"),
        130,
        True,
        False,
    ),
    Program(
        "tools.write_run",
        "--dataset dataset.json --k 2 --data data out/run",
        ("dataset.json", "data"),
        ("dataset.json",),
        20,
    ),
    Program(
        "tools.train",
        "--resume --threads 1 out/run",
        ("written>out/run", "data"),
        ("out/run/*", "data/digits/*/data.mdb"),
        22,
        True,
        False,
        seconds=180,
    ),
    Program(
        "tools.adapt",
        "--source night --source day --target dusk --out out/task --network mnist --iterations 4 --batch-size 8 "
        "--threads 1 --jobs 1",
        ("night", "day", "dusk"),
        ("night/*/*", "dusk/*/*"),
        15,
        True,
        seconds=300,
    ),
)
