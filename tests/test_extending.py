"""What docs/extending.md says about something new is true: one of each is added to a copy of the library, and runs."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest

from latent_domains.common.program import ROOT
from tests.image_trees import plant

LIBRARY = Path("latent_domains")
METHODS, WAYS = LIBRARY / "experiment/methods.py", LIBRARY / "domains/assign.py"
NETWORKS, DATASETS = LIBRARY / "experiment/networks.py", LIBRARY / "experiment/datasets.py"
PUBLISHED, RECIPE = LIBRARY / "data/sets/published.py", LIBRARY / "experiment/recipe.py"
LOSSES, FAMILY = LIBRARY / "nets/losses.py", LIBRARY / "nets/family.py"

BEFORE = {
    METHODS: {
        "METHODS: dict": """@dataclass(frozen=True, kw_only=True)
class InTurn(Control):
    name, title, colour = "in_turn", "one picture after the other", "#444444"

    @property
    def way(self) -> Way:
        return "in_turn", {}


""",
    },
    WAYS: {
        "WAYS: dict": """def in_turn(images: Pictures, k: int, seed: int) -> W:
    return one_hot(np.arange(sum(images.counts)) % k, k)


""",
        '    "known": ': '    "in_turn": in_turn,\n',
    },
    NETWORKS: {
        "NETWORKS = {": "from latent_domains.networks.small import SMALL\n\n",
        "        MNIST,\n": "        SMALL,\n",
    },
    DATASETS: {
        "        # Ours: MNIST": '        replace(_DIGITS_DATA, name="mine", folder="digits", made_by="none"),\n',
    },
    PUBLISHED: {
        "IMAGE_SETS = {": 'FLOWERS = ImageSet("flowers", "Flowers", totals={"drawn": 3, "photo": 4})\n\n',
    },
    RECIPE: {
        "    test_mirror: ": '    lambda_s: Annotated[Weight, Help("weight of the sources\' class entropy")] = 0.0\n',
    },
    LOSSES: {
        "def target_entropy(": """def source_entropy(n: NetSpec, experiment: Experiment, scores: Top) -> None:
    n.source_entropy = python_layer(
        "EntropyLossLayer", scores, loss_weight=loss_weights(experiment)["source_entropy"]
    )


""",
        '        "loss_class": 1,\n': '        "source_entropy": recipe.lambda_s,\n',
    },
    FAMILY: {
        "    losses.target_entropy(n, ": """    if experiment.recipe.lambda_s:
        losses.source_entropy(n, experiment, n.scores_source)
""",
    },
}
"""By file, the lines to add and the words before which they go."""


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("copy")
    for name in ("latent_domains", "caffe_layers", "tools"):
        shutil.copytree(ROOT / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
    for file, added in BEFORE.items():
        text = (root / file).read_text()
        for words, lines in added.items():
            assert text.count(words) == 1, f"{file}: {words}"
            text = text.replace(words, lines + words)
        (root / file).write_text(text)
    for file, names, more in ((METHODS, "StyleW, GhostW", "InTurn"), (PUBLISHED, "PACS, OFFICE_HOME", "FLOWERS")):
        text = (root / file).read_text()
        assert text.count(f"{names})") == 1
        (root / file).write_text(text.replace(f"{names})", f"{names}, {more})"))
    (root / LIBRARY / "networks/small.py").write_text(
        "from dataclasses import replace\n\nfrom latent_domains.networks.mnist import MNIST\n\n"
        'SMALL = replace(MNIST, name="small", title="a small net", folder="small")\n'
    )
    return root


def run(copy: Path, name: str, *arguments: object) -> str:
    """Run a program of the copy; return what it printed."""
    env = {**os.environ, "PYTHONPATH": f"{copy}:{os.environ['PYTHONPATH']}"}
    command = [sys.executable, "-m", f"tools.{name}", *map(str, arguments)]
    done = subprocess.run(command, cwd=copy, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.program
def test_a_new_method_way_network_dataset_setting_and_loss_are_trained(copy, tiny_data, tmp_path):
    settings = ("--dataset", "mine", "--method", "in_turn", "--k", 2, "--network", "small", "--lambda-s", 0.1)
    folder = tmp_path / "run"
    run(copy, "write_run", *settings, "--iterations", 4, "--batch-size", 8, "--data", tiny_data, folder)
    run(copy, "train", "--threads", 1, folder)
    assert "source_entropy = " in (folder / "train.log").read_text()
    record = (folder / "record.json").read_text()
    assert '"in_turn"' in record and '"lambda_s": 0.1' in record


@pytest.mark.program
def test_a_new_set_of_images_becomes_lmdbs(copy, tmp_path):
    cv2.imwrite(str(picture := tmp_path / "picture.jpg"), np.zeros((9, 8, 3), np.uint8))
    counts = {"drawn": {"rose": 1, "tulip": 2}, "photo": {"rose": 2, "tulip": 2}}
    images = plant(tmp_path / "flowers", counts, pictures=[picture])
    said = run(copy, "get_data", "flowers", "--images", images, "--out", tmp_path / "data")
    assert f"{tmp_path}/data/flowers/photo: 4 images" in said
