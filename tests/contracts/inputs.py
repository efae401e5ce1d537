"""Valid inputs of the programs, each made when it is first asked for. Commands get copies of those that they name."""

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import caffe
import numpy as np
from caffe.proto.caffe_pb2 import NetParameter
from scipy.io import savemat

from latent_domains.common.files import json_text
from latent_domains.data import lmdb_io
from latent_domains.data.image_datum import Format
from latent_domains.data.image_list import read_class_tree
from latent_domains.data.image_lmdb import build
from latent_domains.data.preprocessing import Preprocessing
from latent_domains.data.published_file import in_package
from latent_domains.data.sets.published import PACS
from latent_domains.experiment.datasets import DATASETS
from latent_domains.experiment.experiment import Experiment, make_experiment
from latent_domains.models.classifier import ModelDescription
from latent_domains.networks.lite0 import LITE0
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from latent_domains.tables.definition import load
from tests import onnx_models
from tests.fixtures import tiny_table, write_tiny_digits
from tests.latent_domains.convert.fork.fork_nets import digits, save
from tests.latent_domains.report.records import write_record
from tests.shapes import CLASSES, plant_domain
from tests.training import train_here

TABLE = tiny_table("""\
  - name: mDA
    paper: {values: [82.5]}
    runs: {method: mda, batch_size: 8, iterations: 4}
  - name: shallow
    paper: {missing: none}
    baseline: {method: svm}
""")

NET = """
layer { name: "data" type: "Input" top: "data" input_param { shape { dim: 1 dim: 3 dim: 16 dim: 16 } } }
layer { name: "fc" type: "InnerProduct" bottom: "data" top: "fc"
        inner_product_param { num_output: 3 weight_filler { type: "gaussian" std: 0.1 } } }
layer { name: "prob" type: "Softmax" bottom: "fc" top: "prob" }
"""


class Inputs:
    """What lies in ``folder`` by its name; a command line names what it needs."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def place(self, words: str, target: Path) -> None:
        """Copy the inputs that ``words`` name to ``target``; files that name others by their paths name the copies."""
        named = [name for name in MAKERS if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w.])", words)]
        places = {self.need(name): target / f"{'out/' * (f'out/{name}' in words)}{name}" for name in named}
        for source, copy in places.items():
            copy.parent.mkdir(exist_ok=True)
            (shutil.copytree if source.is_dir() else shutil.copy)(source, copy)
        for file in (file for copy in places.values() for file in [copy, *copy.rglob("*")]):
            if file.suffix in (".prototxt", ".json") and file.is_file():
                text = file.read_text()
                for source, copy in places.items():
                    text = re.sub(rf'{source}(?=[/"])', str(copy), text)
                file.write_text(text)

    def need(self, name: str) -> Path:
        """Make an input, unless it is there."""
        path = self.folder / name
        if not path.exists():
            MAKERS[name](self, path)
        return path

    def _domain(self, path: Path) -> None:
        plant_domain(path, path.name, each=4)

    def _pacs(self, path: Path) -> None:
        pictures = sorted(self.need("night").rglob("*.png"))
        for number, (domain, name) in enumerate((d, c) for d in PACS.domains for c in PACS.classes):
            (path / domain / name).mkdir(parents=True)
            shutil.copy(pictures[number % len(pictures)], path / domain / name)

    def _pacs_lmdbs(self, path: Path) -> None:
        for domain in PACS.domains:
            build(
                read_class_tree(self.need("pacs_images") / domain).entries(PACS.classes),
                path / "pacs" / domain,
                Format((256, 256)),
            )

    def _lmdbs(self, path: Path) -> None:
        """Of two domains that go together, and of others that do not."""
        forms = {"night": Format((28, 28)), "day": Format((28, 28)), "gray": Format((28, 28), gray=True)}
        for name, form in {**forms, "encoded": Format((28, 28), encoded="png")}.items():
            tree = read_class_tree(self.need(name if name in ("night", "day") else "dusk"))
            build(tree.entries(CLASSES), path / name, form)
        with lmdb_io.create(path / "empty"), lmdb_io.create(path / "uneven") as (writer, _):
            for side in (28, 28, 5):
                writer.put("x", lmdb_io.image_datum(np.zeros((side, side, 3), np.uint8), 0))

    def _both(self, path: Path) -> None:
        for name in ("night", "day"):
            shutil.copytree(self.need(name), path / name)

    def _features(self, path: Path) -> None:
        for seed, name in enumerate(("amazon", "dslr", "webcam")):
            with lmdb_io.create(path / "office31_fc7" / name) as (writer, _):
                for i, row in enumerate(np.random.default_rng(seed).normal(size=(6, 4096)).astype(np.float32)):
                    writer.put(f"{i}.jpg", lmdb_io.feature_datum(row, i % 3))

    def _arrays(self, path: Path) -> None:
        path.mkdir()
        rows, labels = np.random.default_rng(0).uniform(0.5, 3, (6, 4)), np.array([1, 2, 3, 1, 2, 3])
        savemat(path / "one.mat", {"fts": rows, "labels": labels})
        np.savez(path / "two.npz", X=rows, y=labels)

    def _model(self, path: Path) -> None:
        """An untrained classifier of the shapes, beside its description."""
        path.mkdir()
        (path / "m.prototxt").write_text(NET)
        caffe.Net(str(path / "m.prototxt"), caffe.TEST).save(str(path / "m.caffemodel"))
        form = Preprocessing((3, 20, 24), 16, (104.0, 117.0, 123.0), 1 / 64)
        (path / "m.json").write_text(ModelDescription("small", CLASSES, form).text())

    def _fork(self, path: Path) -> None:
        path.mkdir()
        save(digits(k=2), digits(k=2).weights(seed=0), path)

    def _experiments(self, path: Path) -> None:
        path.mkdir()
        (path / "tiny.yaml").write_text(TABLE)

    def _records(self, path: Path) -> None:
        for one in load(self.need("experiments") / "tiny.yaml").runs:
            if isinstance(one, Experiment):
                write_record(path / "digits" / one.name / "record.json", one, 0.5)

    def _written(self, path: Path) -> None:
        """A run folder with a snapshot at every second of its four iterations."""
        experiment = make_experiment("digits", "mda", k=2, batch_size=8, iterations=4)
        run = write_run(experiment, path, data=self.need("data"), solver_mode="CPU")
        run.solver.write_text(run.solver.read_text().replace("snapshot: 500", "snapshot: 2"))

    def _trained(self, path: Path) -> None:
        self._written(path)
        train_here(RunFolder.load(path))

    def _torch(self, path: Path) -> None:
        path.mkdir()
        shutil.copy(in_package(LITE0.weights[0].file), path / "lite0.pth")


MAKERS: dict[str, Callable[[Inputs, Path], object]] = {
    "night": Inputs._domain,
    "day": Inputs._domain,
    "dusk": Inputs._domain,
    "both": Inputs._both,
    "list.txt": lambda _, path: path.write_text(
        "".join(f"{name}/{i}.png {n}\n" for n, name in enumerate(CLASSES) for i in range(4))
    ),
    "classes.txt": lambda _, path: path.write_text("".join(f"{name}\n" for name in CLASSES)),
    "pacs_images": Inputs._pacs,
    "pacs_lmdbs": Inputs._pacs_lmdbs,
    "lmdbs": Inputs._lmdbs,
    "features": Inputs._features,
    "arrays": Inputs._arrays,
    "small.onnx": lambda _, path: onnx_models.save(path),
    "model": Inputs._model,
    "fork": Inputs._fork,
    "torch": Inputs._torch,
    "data": lambda _, path: write_tiny_digits(path),
    "dataset.json": lambda _, path: path.write_text(json_text(DATASETS["digits"].to_json())),
    "experiments": Inputs._experiments,
    "records": Inputs._records,
    "written": Inputs._written,
    "trained": Inputs._trained,
}


def write_weights(file: Path, change: Callable[[NetParameter], object]) -> None:
    """Change a caffemodel."""
    net = NetParameter.FromString(file.read_bytes())
    change(net)
    file.write_bytes(net.SerializeToString())
