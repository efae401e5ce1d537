"""The experiment that is made of an adaptation, and the sizes of its batches."""

from typing import Any

import pytest

from latent_domains.adapt.adaptation import batch_notes, experiment_of
from latent_domains.common.program import ProgramError
from latent_domains.experiment.batches import batch_sizes
from tests.latent_domains.adapt.adaptations import adaptation


@pytest.mark.parametrize(("images", "interval"), [(4_000, 200), (20_000, 417), (172_500, 1200)])
def test_experiment_of_tests_a_large_target_less_often(images, interval, tmp_path):
    """A test of as many images as 417 batches of 48 comes after so many; 1,200 batches are all of the training."""
    counts = {"one": 5_000, "other": 400_000, "target": images}
    recipe = experiment_of(adaptation(tmp_path, dict.fromkeys(counts, 1)), counts).data.recipe
    assert (recipe.iterations, recipe.batch_size, recipe.test_interval) == (1200, 48, interval)


def test_experiment_of_refuses_a_branch_that_no_model_could_have(tmp_path):
    counts = {"night": 20, "dusk": 20, "dawn": 20}
    ours = adaptation(tmp_path, counts, "lite0", targets=2, k_target=2, branch_input="early")
    with pytest.raises(ProgramError, match=r"branch_input: got 'early' with k_target 2, expected final: .* latent tar"):
        experiment_of(ours, counts)


@pytest.mark.parametrize(
    ("split", "images", "expected"),
    [
        (None, (1_000, 1_000), (16, 16, 16)),
        ("per_group", (1_000, 1_000), (12, 12, 24)),
        ("by_size", (1_000, 1_000), (16, 16, 16)),
        ("per_domain", (1_000, 10), (10, 10, 10)),
        ("per_group", (1_000, 10), (8, 7, 15)),
        ("equally", (1_000, 10), (10, 10, 10)),
        ("by_size", (1_000, 10), (23, 23, 2)),
    ],
)
def test_experiment_of_has_the_size_of_a_batch_however_it_is_divided(split, images, expected, tmp_path):
    counts = {"one": images[0], "other": images[0], "target": images[1]}
    ours = adaptation(tmp_path, counts, batch_split=split)
    experiment = experiment_of(ours, counts)
    assert tuple(batch_sizes(experiment, counts).values()) == expected
    notes = list(batch_notes(ours.images, experiment))
    assert bool(notes) == (sum(expected) < 48)
    assert all(f" images: so a batch has {sum(expected)} images, not 48 as " in note for note in notes)


def test_batch_notes_say_that_a_small_domain_makes_smaller_batches(tmp_path):
    def told(smallest: int, **chosen: Any) -> list[str]:
        counts = {"one": smallest, "other": 500, "target": 500}
        ours = adaptation(tmp_path, counts, "mnist", **chosen)
        return list(batch_notes(ours.images, experiment_of(ours, counts)))

    assert told(128) == [] and told(3, batch_size=32) == []
    for method, domains in (("mda", 3), ("source_only", 2)):
        (note,) = told(3, method=method)
        assert note.startswith(f"one has 3 images: so a batch has {8 * domains} images, not {128 * domains} as the net")
