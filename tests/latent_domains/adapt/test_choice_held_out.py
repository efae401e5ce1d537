"""The runs in which a source plays the target."""

from pathlib import Path

import pytest

from latent_domains.adapt import choice
from latent_domains.experiment.experiment import Experiment, make_experiment
from latent_domains.runs.run_folder import RunFolder

SOURCES = ("art_painting", "photo", "sketch")
ALIGNED = {
    "dial": {},
    "multi_source": {},
    "random_w": {},
    "style_w": {"equal_classes": True},
    "mda": {"branch_norm": "logits", "branch_input": "early", "no_w_gradient": True, "lambda_d": 0.2},
}


def made(method: str, sources: tuple[str, ...] = SOURCES, **settings) -> Experiment:
    return make_experiment("pacs_lite0", method, sources=sources, targets=("cartoon",), seed=3, **settings)


def _without(whole: Experiment, source: str, path: Path = Path("run")) -> Experiment:
    return choice._without(RunFolder(path, whole, Path("data")), source)


@pytest.mark.parametrize("method", ["mda", "multi_source"])
def test_domains_of_a_file_stay(method, tmp_path):
    """Those of the run's copy: the file itself may have changed."""
    folder = RunFolder(tmp_path, made(method), tmp_path)
    folder.domains_file.write_text("picture,domain\na,1\nb,2\nc,3\nd,4\n")
    whole = made(method, domains=folder.domains_file)
    other = _without(whole, "photo", tmp_path)
    assert (other.k, other.method) == (4, whole.method) and other.method.domains_file == str(folder.domains_file)
    assert _without(made(method, SOURCES[:2], domains=folder.domains_file), "photo", tmp_path).method.name == "dial"


@pytest.mark.parametrize("method", ALIGNED)
def test_without_a_source_the_rest_stays(method):
    whole = made(method, **ALIGNED[method])
    other = _without(whole, "photo")
    assert (other.sources, other.targets) == (("art_painting", "sketch"), ("photo",))
    expected = whole.settings | {"sources": other.sources, "targets": other.targets}
    if whole.method.is_latent:
        expected["k"] = 2
    assert other.settings == expected


@pytest.mark.parametrize("method", ALIGNED)
def test_a_single_source_has_no_domains(method):
    other = _without(made(method, SOURCES[:2], **ALIGNED[method]), "photo")
    assert (other.method.name, other.sources, other.targets) == ("dial", SOURCES[:1], ("photo",))
    assert (other.recipe.head, other.recipe.lambda_m, other.seed) == ("linear", 0.1, 3)


def test_each_domain_keeps_its_rows_of_a_batch():
    whole = made("dial", batch_split="equally", batch_size=256)
    assert _without(whole, "photo").recipe.batch_size == 192
