"""Latent domains of drawn pictures, and which of them are shown."""

from pathlib import Path

import numpy as np
import pytest

from latent_domains.convert.torch.backbone import feature_backbone, get_weights
from latent_domains.data.domain_images import Domain, TaskImages, read_piles
from latent_domains.data.image_list import Found
from latent_domains.data.lmdb_plans import build_missing
from latent_domains.data.reading import USUAL
from latent_domains.discovery.discover import Discovery, chosen, discover
from latent_domains.discovery.page import shares_section
from latent_domains.discovery.pictures import Statistics, plan_statistics, read_statistics
from latent_domains.networks.lite0 import LITE0
from latent_domains.report.classes import DRAWN
from latent_domains.report.page import Charts, TableBlock
from tests.shapes import plant_domain


@pytest.mark.slow
def test_most_certain_pictures_are_of_several_classes(tmp_path):
    pile = read_piles([plant_domain(tmp_path / look, look, 8) for look in ("night", "day")])
    parts = plan_statistics(
        pile,
        feature_backbone(LITE0, *get_weights(LITE0), LITE0.backbone.middle),
        tmp_path / "out",
        reading=USUAL,
        jobs=2,
        skip_unreadable=False,
    )
    assert build_missing(parts) == 48
    statistics = read_statistics(pile, [part.path for part in parts])
    assert statistics.rows.shape == (48, 80 + 112 + 192)
    found = discover(pile, USUAL, statistics, 2, 0)
    most, least = chosen(found, 0, 6)
    assert len(set(statistics.classes[most].tolist())) == 3 and not set(most) & set(least)
    assert found.found.margin[most].min() >= np.median(found.found.margin[least])
    assert found.classes_in_domains.sum() == 48


def test_shares_of_many_classes_are_a_table():
    names = [f"class {number}" for number in range(DRAWN + 1)]
    counts = np.tile([3, 1], (len(names), 1))
    (table,) = shares_section(counts, names).blocks
    assert isinstance(table, TableBlock) and len(table.rows) == len(names)
    assert table.rows[-1] == [f"class {DRAWN}", "4", "75", "25"] and table.header[-1] == "#s₂ (%)"
    assert isinstance(shares_section(counts[1:], names[1:]).blocks[0], Charts)


def discovered(rows: np.ndarray, classes: np.ndarray, k: int | None = None) -> Discovery:
    """What is found of statistics alone."""
    files = [Path(f"{number}.png") for number in range(len(rows))]
    names = tuple(f"class {label}" for label in np.unique(classes))
    pile = TaskImages((Domain("pile", Path(), (), Found()),), (), names, ())
    return discover(pile, USUAL, Statistics(rows, classes, np.zeros(len(rows), np.int64), files), k, 0)


def test_classes_that_hide_domains_are_said():
    rng, number, size = np.random.default_rng(0), 120, 3
    kinds, noise = np.arange(number) % 2, rng.normal(size=(number, size))
    rows = noise + 8 * kinds[:, np.newaxis] * np.eye(1, size)
    of_one_kind = np.arange(number) % 8  # the even ones are of the first kind
    lone = np.arange(number)
    mixed = np.arange(number) // 2 % 6
    for classes, k, expected in (
        (of_one_kind, None, "Where each class is of one kind, class and kind cannot be told apart (--unlabelled"),
        (lone, None, "120 of 120 pictures are the only one of their class"),
        (lone, 2, "120 of 120 pictures are the only one of their class"),
    ):
        (note,) = discovered(rows, classes, k).notes
        assert expected in note and "--unlabelled" in note
    found = discovered(rows, mixed)
    assert found.found.k == 2 and found.notes == []
    assert discovered(noise, mixed).notes == []
    assert discovered(noise, np.zeros(number, np.int64)).notes == []


def test_pictures_that_are_all_the_same_are_not_called_few():
    rows, classes = np.ones((70, 5)), np.arange(70) % 7
    assert discovered(rows, classes).summary() == [
        "70 pictures: one domain (too few that differ, 1 of 70, to look for more)"
    ]
    rows = np.random.default_rng(0).normal(size=(10, 5))
    assert discovered(rows, classes[:10]).summary() == ["10 pictures: one domain (too few pictures to look for more)"]
