"""The classifier that is saved: which it is, and that Caffe computes it."""

from dataclasses import replace
from pathlib import Path

import caffe
import numpy as np
import pytest

from latent_domains.adapt import choice as module
from latent_domains.adapt.choice import CANDIDATES, OF_NET, Candidates, Choice, accuracies, can_choose, choose
from latent_domains.baselines.linear import standardised
from latent_domains.common.program import ProgramError
from latent_domains.experiment.experiment import Experiment, make_experiment
from latent_domains.models.classifier import blob_of_images
from latent_domains.runs.record import OnTarget
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import write_run
from tests.training import train_here

FOUND = {
    name: {"t": OnTarget.of(np.array([[right, 4 - right], [0, 4]]))}
    for name, right in zip(CANDIDATES, range(3), strict=True)
}


def choice(**changes) -> Choice:
    held_out = {
        "a": {"head": 0.5, "spread": 0.625, "logistic": 0.25},
        "b": {"head": 0.5, "spread": 0.5, "logistic": 0.75},
    }
    return replace(Choice("spread", held_out, 0.5, FOUND), **changes)


def test_choice_is_read_as_it_was_written(tmp_path):
    file = tmp_path / "choice.json"
    file.write_text(choice().text())
    assert Choice.read(file) == choice()
    assert choice().accuracy("logistic") == 6 / 8 and choice(targets={"head": {}}).accuracy("head") is None
    file.write_text(file.read_text().replace('"spread",', '"best",', 1))
    with pytest.raises(
        ProgramError, match=r"choice\.json: chosen: found 'best', expected 'head', 'spread' or 'logistic'"
    ):
        Choice.read(file)


def test_reason_has_the_means():
    assert choice().reason.endswith(
        "head 50.0 %, the trained head, its predictions spread over neighbours 56.2 %, "
        "logistic regression, each side standardised 50.0 %"
    )
    assert "smoothness of 0.50, below 0.9" in choice(chosen="head", held_out={}).reason
    of_net = choice(targets={name: FOUND[name] for name in OF_NET})
    assert of_net.reason.endswith(f"with the features alone: the trained head 50.0 %, {CANDIDATES['spread']} 56.2 %")


@pytest.mark.parametrize(
    ("method", "settings", "expected"),
    [
        ("dial", {}, True),
        ("mda", {}, True),
        ("mda", {"k_target": 2}, False),
        ("source_only", {}, False),
        ("dial", {"head": "paper"}, False),
    ],
)
def test_can_choose_only_among_linear_heads_that_adapt_to_one_domain(method, settings, expected, tmp_path):
    run = RunFolder(tmp_path, make_experiment("pacs_lite0", method, **settings), tmp_path)
    assert can_choose(run) is expected


def trained(folder, data, **settings) -> RunFolder:
    settings = {"sources": ("art_painting", "photo"), "targets": ("cartoon",), **settings}
    run = write_run(make_experiment("pacs_lite0", "dial", iterations=4, batch_size=16, **settings), folder, data=data)
    train_here(run)
    return run


@pytest.fixture(scope="module")
def run(lite0_features, tmp_path_factory) -> RunFolder:
    return trained(tmp_path_factory.mktemp("runs") / "run", lite0_features)


@pytest.mark.program
@pytest.mark.parametrize("name", CANDIDATES)
def test_weights_are_the_candidate_in_caffe(run, name, tmp_path):
    candidates = Candidates.fit(run)
    file = tmp_path / "chosen.caffemodel"
    file.write_bytes(candidates.weights(name))
    net = run.load_net("deploy", caffe.TEST, file)
    rows = np.zeros((len(candidates.features), *net.blobs["data"].shape[1:]), np.float32)
    rows[:, : candidates.features.shape[1], 0, 0] = candidates.features
    net.blobs["data"].reshape(*rows.shape)
    net.blobs["data"].data[...] = rows
    expected = candidates.heads[name].probabilities(standardised(candidates.features))
    if name == "head":  # by the running means and variances
        net.copy_from(str(run.final_snapshot().model))
        expected = net.forward()["prob"].copy()
        net.copy_from(str(file))
    np.testing.assert_allclose(net.forward()["prob"], expected, atol=1e-5)
    (found,) = candidates.test(name).values()
    assert found.test_images == len(candidates.features) and found.accuracy >= 0


@pytest.mark.program
def test_choose_takes_what_is_best_where_sources_are_held_out(run, lite0_features, tmp_path, monkeypatch):
    other = trained(tmp_path / "photo", lite0_features, sources=("art_painting",), targets=("photo",))
    monkeypatch.setattr(
        "latent_domains.adapt.choice.Candidates.test",
        lambda self, name: {
            target: OnTarget.of(
                np.array([[2, 0], [0, 2]])
                if (name == "logistic") == (self.run is other)
                else np.array([[1, 1], [1, 1]])
            )
            for target in self.run.experiment.targets
        },
    )
    choose(run, accuracies([other]), tmp_path / "choice.json", tmp_path / "chosen.caffemodel")
    found = Choice.read(tmp_path / "choice.json")
    assert found.chosen == "logistic", "not what is best on the target"
    assert found.held_out == {"photo": {"head": 0.5, "spread": 0.5, "logistic": 1.0}}
    choose(run, {}, tmp_path / "choice.json", tmp_path / "chosen.caffemodel")
    assert Choice.read(tmp_path / "choice.json").chosen in ("head", "spread")


@pytest.fixture(scope="module")
def net(small_pictures, tmp_path_factory) -> RunFolder:
    """A net that was trained as a whole."""
    settings = {"network": "lite0", "image_size": 64, "sources": ("art_painting", "photo"), "targets": ("cartoon",)}
    experiment = make_experiment("pacs", "dial", iterations=1, batch_size=24, **settings)
    run = write_run(experiment, tmp_path_factory.mktemp("runs") / "net", data=small_pictures)
    train_here(run)
    return run


@pytest.mark.program
def test_candidates_of_a_net_are_the_net_in_caffe_with_another_classifier(net, tmp_path):
    assert can_choose(net)
    candidates = Candidates.fit(net)
    assert list(candidates.heads) == list(OF_NET)
    for name, head in candidates.heads.items():
        file = tmp_path / f"{name}.caffemodel"
        file.write_bytes(candidates.weights(name))
        loaded, data = net.load_net("deploy", caffe.TEST, file), net.experiment.data
        found, _ = blob_of_images(loaded, "prob", net.train_lmdbs["cartoon"], data.preprocessing, 20)
        np.testing.assert_allclose(found, head.probabilities(standardised(candidates.features)), atol=1e-4)
    (on_target,) = candidates.test("spread").values()
    assert on_target.test_images == len(candidates.features)


@pytest.mark.program
def test_choose_a_nets_classifier_by_what_was_held_out_of_the_features(net, tmp_path):
    for better in OF_NET:
        held_out = {"photo": {name: float(name == better) for name in CANDIDATES}}
        choose(net, held_out, tmp_path / "choice.json", tmp_path / "chosen.caffemodel")
        found = Choice.read(tmp_path / "choice.json")
        assert (found.chosen, found.words, found.held_out) == (better, OF_NET, held_out)


@pytest.mark.parametrize("network", ["mnist", "alexnet"])
def test_can_choose_no_classifier_that_is_normalised(network, tmp_path):
    dataset = {"mnist": "digits", "alexnet": "office31"}[network]
    run = write_run(make_experiment(dataset, "dial"), tmp_path / "run", data=tmp_path)
    assert can_choose(run) is False


# --- the runs in which a source plays the target

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
    return module._without(RunFolder(path, whole, Path("data")), source)


@pytest.mark.parametrize("method", ["mda", "multi_source"])
def test_without_keeps_domains_of_a_file(method, tmp_path):
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
def test_without_all_sources_but_one_there_are_no_domains(method):
    other = _without(made(method, SOURCES[:2], **ALIGNED[method]), "photo")
    assert (other.method.name, other.sources, other.targets) == ("dial", SOURCES[:1], ("photo",))
    assert (other.recipe.head, other.recipe.lambda_m, other.seed) == ("linear", 0.1, 3)


def test_without_keeps_the_rows_of_each_domain_in_a_batch():
    whole = made("dial", batch_split="equally", batch_size=256)
    assert _without(whole, "photo").recipe.batch_size == 192
