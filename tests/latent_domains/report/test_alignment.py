"""Features in two dimensions; with them curves along training, and names that may be anything."""

import numpy as np
from matplotlib.figure import Figure

from latent_domains.experiment.experiment import make_experiment
from latent_domains.report import alignment, classes
from latent_domains.report.accuracy import BINS, binned, target_curves
from latent_domains.report.alignment import alike_by_chance, embed, neighbours_alike, principal
from latent_domains.report.chart import image
from latent_domains.report.comparison import ComparedTask, Line
from latent_domains.report.page import Charts, Page, Section
from latent_domains.report.runs import LoadedRun
from latent_domains.runs.outputs import AlignedFeatures


def test_alike_by_chance_features_in_two_dimensions():
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], 30)
    features = rng.normal(size=(60, 80)).astype(np.float32)
    assert abs(neighbours_alike(principal(features), groups) - alike_by_chance(groups)) < 0.2
    features[groups == 1] += 10
    components = principal(features)
    assert neighbours_alike(components, groups) == 1
    points = embed(components)
    assert points.shape == (60, 2) and np.array_equal(points, embed(components))
    assert neighbours_alike(points, groups) == 1
    assert alike_by_chance(np.array([0, 0, 1])) == 1 / 3


def test_alignment_section_domains_and_classes_too_many_to_be_named(tmp_path, monkeypatch):
    rng, groups = np.random.default_rng(0), np.arange(22) % 11
    values = rng.normal(size=(22, 4)).astype(np.float32)
    names = tuple(f"domain {number}" for number in range(11))
    found = AlignedFeatures(None, values, groups, groups % 10, names, None, "pool")
    monkeypatch.setattr(alignment, "aligned_features", lambda *_: found)
    monkeypatch.setattr(LoadedRun, "trained", lambda _: (None, None))
    run = LoadedRun("run", tmp_path, make_experiment("digits", "dial"), None, None)  # of ten classes
    by_domain, by_class = (block for block in alignment.alignment_section([run]).blocks if isinstance(block, Charts))
    assert by_domain.caption == "Domains are too many to be named: colours and marks repeat."
    assert by_class.caption == ""


def test_binned_curves_are_averaged_in_bins_and_read_off_between_their_points():
    long = {i: float(i) for i in range(0, 1000, 10)}
    iterations, values = binned([long, {**long, 5: 5.0}])
    assert len(iterations) == BINS and values.shape == (2, BINS)
    np.testing.assert_allclose(values[0], iterations)
    np.testing.assert_allclose(values[1], iterations)
    iterations, values = binned([{0: 0.0, 10: 10.0}, {5: 1.0}])
    assert iterations.tolist() == [0, 5, 10]
    assert values.tolist() == [[0, 5, 10], [None, 1, None]], "no value before a run begins and after it ends"
    iterations, values = binned([long, {i: 7.0 for i in long if i < 500}])
    assert values[1].tolist() == BINS // 2 * [7.0] + BINS // 2 * [None]
    assert values.mean(axis=0)[-1] == iterations[-1], "a run that is not finished takes no part in the end"


def test_target_curves_accuracies_along_training_are_in_percent(tmp_path):
    run = LoadedRun("run", tmp_path, make_experiment("digits", "dial"), None, None)
    vars(run)["curves"] = {("test", "accuracy"): {0: 0.5, 10: 0.75}, ("train", "loss_class"): {0: 2.0}}
    [chart] = target_curves(ComparedTask("task", ("usps",), (Line("DIAL", "dial", (run,)),)))
    assert chart.alt == "Accuracy on usps (%) against the iterations. At the end: DIAL 75."
    axes = Figure().subplots()
    chart.draw(axes)
    assert [line.get_ydata().tolist() for line in axes.lines] == [[50, 75]]


def test_page_names_that_no_page_can_hold_and_letters_that_the_font_lacks(recwarn):
    awkward = "犬\x01\udcff"
    drawn = classes.confusion_chart(np.eye(2, dtype=np.int64), [awkward, "b"], awkward)
    text = image([drawn]).decode()
    assert "犬\N{REPLACEMENT CHARACTER}" in text and "\x01" not in text
    page = Page(awkward, [awkward], [Section("a", awkward, [Charts(awkward, [drawn], awkward)])], "").html()
    page.encode()
    assert not recwarn.list
