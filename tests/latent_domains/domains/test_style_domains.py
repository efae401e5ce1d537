"""Latent domains by their style, on numbers whose class and domain effects are known."""

import tracemalloc

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.metrics import adjusted_rand_score

from latent_domains.common.program import ProgramError
from latent_domains.domains import style_domains
from latent_domains.domains.style_clusters import directions, effects, log_probabilities
from latent_domains.domains.style_domains import AGREEMENT, divide, explained, find_style_domains


def mixture(domains: int, number: int = 400, size: int = 40, gap: float = 3.0, seed: int = 0):
    """``number`` rows of each domain, their classes and their domains: the effects of 5 classes are the larger ones.

    Domains have different shares of the classes, so that taking away the means of the classes is not enough.
    """
    rng = np.random.default_rng(seed)
    a = 6 * rng.standard_normal((5, size))
    b = rng.standard_normal((domains, size))
    b *= gap / np.linalg.norm(b, axis=1, keepdims=True)
    truth = np.repeat(np.arange(domains), number)
    shares = rng.dirichlet(np.full(5, 4), size=domains)
    classes = np.concatenate([rng.choice(5, number, p=share) for share in shares])
    return a[classes] + b[truth] + 0.5 * rng.standard_normal((len(truth), size)), classes, truth


def test_effects_are_those_of_least_squares():
    rows, classes, truth = mixture(3, 50)
    weights = np.random.default_rng(1).dirichlet(np.ones(3), size=len(rows))
    a, b = effects(rows, classes, weights)
    design = np.concatenate([np.eye(5)[classes], np.eye(3)[truth]], axis=1)
    solved = design @ np.linalg.lstsq(design, rows, rcond=None)[0]
    hard_a, hard_b = effects(rows, classes, np.eye(3)[truth])
    np.testing.assert_allclose(hard_a[classes] + hard_b[truth], solved, atol=1e-9)
    np.testing.assert_allclose(weights.sum(axis=0) @ b, 0, atol=1e-8)
    residual = np.einsum("nkp,nk->np", rows[:, None] - a[classes][:, None] - b[None], weights)
    np.testing.assert_allclose(np.eye(5)[classes].T @ residual, 0, atol=1e-7)  # nothing of a class is left


def test_effects_the_memory_for_effects_does_not_grow_with_classes_times_pictures():
    rng = np.random.default_rng(0)
    rows, classes = rng.standard_normal((10_000, 4)), rng.integers(0, 1000, 10_000)
    weights = np.eye(2)[rng.integers(0, 2, len(rows))]
    effects(rows[:9], classes[:9], weights[:9])  # what it imports counts before
    tracemalloc.start()
    effects(rows, classes, weights)
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < 8_000_000  # a number for each class and picture: 80 MB


def test_find_style_domains_domains_are_found_behind_larger_effects_of_the_classes():
    rows, classes, truth = mixture(3, 100)
    found = find_style_domains(rows, classes, None, 0)
    assert found.k == 3 and adjusted_rand_score(truth, found.domains) > 0.97
    assert found.agreement.beyond_cloud > 0.7 and min(found.stability) > 0.9
    assert (np.diff(np.bincount(found.domains)) <= 0).all()  # the first is the largest
    assert (found.probability > 1 / 3).all() and found.probability.max() <= 1
    plain = KMeans(3, n_init=10, random_state=0).fit_predict(rows)
    assert adjusted_rand_score(truth, plain) < 0.2  # the control: they find classes


@pytest.mark.parametrize("seed", range(4))
def test_find_style_domains_classes_that_lie_in_one_domain_alone(seed):
    """Their effect and that of their domain cannot be told apart, so a usual effect is taken for theirs."""
    rng = np.random.default_rng(seed)
    shares = np.array([[0.2, 0.2, 0.2, 0.4, 0], [0.2, 0.2, 0.2, 0, 0.4]])
    truth = np.repeat([0, 1], 150)
    classes = np.concatenate([rng.choice(5, 150, p=share) for share in shares])
    of_class, of_domain = 0.3 * rng.standard_normal((5, 40)), 0.6 * rng.standard_normal((2, 40))
    rows = of_class[classes] + of_domain[truth] + 0.5 * rng.standard_normal((300, 40))
    found = find_style_domains(rows, classes, None, seed)
    assert found.k == 2 and adjusted_rand_score(truth, found.domains) > 0.97


def test_find_style_domains_classes_that_are_not_known_hide_domains():
    rows, classes, truth = mixture(2, 200)
    found = find_style_domains(rows, np.zeros_like(classes), 2, 0)
    assert adjusted_rand_score(truth, found.domains) < 0.5
    assert adjusted_rand_score(truth, find_style_domains(rows, classes, 2, 0).domains) > 0.97


@pytest.mark.parametrize("seed", range(3))
def test_find_style_domains_one_domain_is_one(seed):
    rows, classes, _ = mixture(1, 300, seed=seed)
    stretched = rows @ np.diag(np.linspace(3, 0.2, rows.shape[1]))  # it varies much in some directions
    assert find_style_domains(stretched, classes, None, 0).k == 1
    heavy = rows + np.random.default_rng(seed).standard_t(3, size=rows.shape)
    found = find_style_domains(heavy, classes, None, 0)
    assert found.k == 1 and found.stability == [1.0] and (found.probability == 1).all()


def test_find_style_domains_a_long_cloud_is_one_domain():
    """Halves of it agree where to cut it, but hardly more than halves of any cloud so long."""
    unstable = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        rows, classes = 0.5 * rng.standard_normal((300, 40)), rng.integers(0, 5, 300)
        rows += rng.standard_normal((300, 1)) * 0.4 * rng.standard_normal((1, 40))
        found = find_style_domains(rows, classes, None, seed)
        assert found.k == 1
        unstable += found.unstable
    assert unstable <= 3


def test_find_style_domains_a_gap_between_few_pictures():
    """Their halves hardly agree, but much more than those of a cloud."""
    rows, classes, truth = mixture(2, 50, gap=2.0, seed=2)
    found = find_style_domains(rows, classes, None, 0)
    assert found.k == 2 and adjusted_rand_score(truth, found.domains) > 0.7
    assert found.agreement.halves < 0.58 and found.agreement.cloud < 0.25


def test_find_style_domains_a_division_that_is_not_found_again_is_none():
    """Pictures along a line have no gap, but halves may agree on its middle."""
    rng = np.random.default_rng(3)
    rows, classes = 0.5 * rng.standard_normal((160, 40)), rng.integers(0, 5, 160)
    rows += np.linspace(-1, 1, 160)[:, None] * 0.4 * rng.standard_normal((1, 40))
    found = find_style_domains(rows, classes, None, 3)
    assert found.k == 1 and found.unstable and found.agreement.beyond_cloud >= AGREEMENT[2]
    assert not find_style_domains(rows, classes, 2, 3).unstable
    assert not find_style_domains(rng.standard_normal((160, 40)), classes, None, 3).unstable


@pytest.mark.parametrize(("numbers", "gap"), [((12, 12, 12, 12), 8.0), ((100, 15, 15), 4.0)])
def test_divide_few_pictures_of_as_many_domains_as_are_asked_for(numbers, gap):
    """Parts of fewer pictures than are counted: those that hold several domains are divided, not any."""
    for seed in range(3):
        rows, classes, truth = mixture(len(numbers), max(numbers), gap=gap, seed=seed)
        some = np.concatenate([np.flatnonzero(truth == domain)[:number] for domain, number in enumerate(numbers)])
        found = divide(rows[some], classes[some], len(numbers), 0)
        assert adjusted_rand_score(truth[some], found.domains) > 0.85


def test_find_style_domains_a_division_of_classes_makes_no_domains():
    """A few pictures in a wrong class tie all others of three classes together: halves agree on these classes."""
    rng = np.random.default_rng(1)
    classes = np.repeat(np.arange(10), 40)
    shown, wrong = classes.copy(), rng.random(400) < 0.08
    shown[wrong] = rng.integers(0, 10, wrong.sum())
    groups = rng.standard_normal((2, 40))
    a = rng.standard_normal((10, 40)) + 3 * groups[(np.arange(10) < 3).astype(int)]
    found = find_style_domains(a[shown] + 0.5 * rng.standard_normal((400, 40)), classes, None, 1)
    assert found.k == 1 and found.by_class and not found.unstable
    assert found.agreement.beyond_cloud >= AGREEMENT[2]  # so it was two domains, one of them three classes


def test_explained_how_far_classes_explain_a_division():
    assert explained(np.arange(100) % 5, np.arange(100) // 50) < 0.05
    assert explained(np.arange(100) // 25, np.arange(100) // 50) == pytest.approx(1)
    assert explained(np.zeros(100), np.arange(100) // 50) == 0


def test_effects_of_many_small_classes_are_left_in():
    """To take away the mean of three pictures takes away most of what their domains differ by."""
    rng = np.random.default_rng(0)
    truth, classes = np.arange(240) % 2, rng.permutation(240) // 3
    b = rng.standard_normal((2, 40))
    rows = 2 * (b / np.linalg.norm(b, axis=1, keepdims=True))[truth] + 0.5 * rng.standard_normal((240, 40))
    found = find_style_domains(rows, classes, None, 0)
    assert found.k == 2 and found.left_in and adjusted_rand_score(truth, found.domains) > 0.9
    assert not find_style_domains(rows, rng.integers(0, 5, 240), None, 0).left_in


def test_find_style_domains_plain_clusters_where_they_hold_better(monkeypatch):
    rows, classes, truth = mixture(2, 60)
    assert not find_style_domains(rows, classes, 2, 0).by_kmeans
    monkeypatch.setattr(style_domains, "HOLDS_MORE", -2)
    found = find_style_domains(rows, classes, 2, 0)
    assert found.by_kmeans and adjusted_rand_score(truth, found.domains) > 0.6 and min(found.stability) > 0.8
    assert (found.probability >= 0.5).all() and (found.margin >= 0).all()
    np.testing.assert_array_equal(divide(rows, classes, 2, 0).domains, found.domains)
    assert (np.diff(np.bincount(found.domains)) <= 0).all()


def test_find_style_domains_few_and_equal_pictures():
    rows, classes, _ = mixture(2, 4)
    few = find_style_domains(rows, classes, None, 0)  # halves of 4 say nothing
    assert few.k == 1 and few.agreement is None
    found = find_style_domains(rows, classes, 2, 0)
    assert found.k == 2 and len(found.domains) == 8 and np.isfinite(found.probability).all()
    every = find_style_domains(rows, classes, 8, 0)
    assert every.k == 8 and (np.bincount(every.domains) == 1).all()
    with pytest.raises(ProgramError, match="1 different images, expected at least 2, one for each latent domain"):
        find_style_domains(np.ones((5, 3)), np.zeros(5, np.int64), 2, 0)
    assert find_style_domains(np.ones((5, 3)), np.zeros(5, np.int64), None, 0).k == 1
    own = find_style_domains(np.random.default_rng(0).standard_normal((50, 40)), np.arange(50), None, 0)
    assert own.k == 1 and own.agreement.beyond_cloud == 0  # a class for each picture leaves nothing to divide
    half = np.repeat(rows[:1], 90, axis=0)
    half[60:] = rows[-1]
    twice = find_style_domains(half, np.zeros(90, np.int64), 2, 0)
    assert np.bincount(twice.domains).tolist() == [60, 30]


def test_directions_columns_that_say_nothing_change_nothing():
    rows, classes, _ = mixture(2, 60)
    with_constant = np.concatenate([rows, np.full((len(rows), 2), 1e6)], axis=1)
    assert np.isfinite(with_constant).all()
    np.testing.assert_allclose(
        np.abs(directions(with_constant, classes).scores), np.abs(directions(rows, classes).scores), atol=1e-6
    )


def test_log_probabilities_probabilities_add_up_to_one():
    rows, classes, truth = mixture(3, 100)
    logs = log_probabilities(rows, classes, 3, 0)
    np.testing.assert_allclose(np.exp(logs).sum(axis=1), 1)
    assert adjusted_rand_score(truth, logs.argmax(axis=1)) > 0.9
