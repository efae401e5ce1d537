"""Latent domains of drawn pictures, and which of them are shown."""

from pathlib import Path

import cv2
import numpy as np
import pytest

from latent_domains.common.artefact import make_missing
from latent_domains.convert.torch.backbone import feature_backbone, get_weights
from latent_domains.data.domain_images import Domain, TaskImages, read_piles
from latent_domains.data.image_list import UNKNOWN, Found
from latent_domains.data.preprocessing import USUAL
from latent_domains.discovery.discover import UNCERTAIN, Discovery, chosen, discover, file_facts, what_differs
from latent_domains.discovery.page import shares_section
from latent_domains.domains.statistics import Statistics, plan_statistics, read_statistics
from latent_domains.networks.lite0 import LITE0
from latent_domains.report.chart import latent_name
from latent_domains.report.classes import DRAWN
from latent_domains.report.page import Charts, TableBlock
from tests.shapes import plant_domain


@pytest.mark.slow
def test_chosen_most_certain_pictures_are_of_several_classes(tmp_path):
    pile = read_piles([plant_domain(tmp_path / look, look, 8) for look in ("night", "day")])
    parts = plan_statistics(
        pile,
        feature_backbone(LITE0, *get_weights(LITE0), LITE0.backbone.middle),
        tmp_path / "out",
        reading=USUAL,
        jobs=2,
        skip_unreadable=False,
    )
    assert sum(make_missing(parts)) == 48
    statistics = read_statistics(pile, [part.path for part in parts])
    assert statistics.rows.shape == (48, 80 + 112 + 192)
    found = discover(pile, USUAL, statistics, 2, 0)
    most, least = chosen(found, 0, 6)
    assert len(set(statistics.classes[most].tolist())) == 3 and not set(most) & set(least)
    assert found.found.margin[most].min() >= np.median(found.found.margin[least])
    assert found.classes_in_domains.sum() == 48


def test_shares_section_shares_of_many_classes_are_a_table():
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


def test_discover_classes_that_hide_domains_are_said():
    rng, number, size = np.random.default_rng(0), 120, 3
    kinds, noise = np.arange(number) % 2, rng.normal(size=(number, size))
    rows = noise + 8 * kinds[:, np.newaxis] * np.eye(1, size)
    of_one_kind = np.arange(number) % 8  # the even ones are of the first kind
    lone = np.arange(number)
    mixed = np.arange(number) // 2 % 6
    for classes, k, expected in (
        (of_one_kind, None, "Where each class is of one kind, class and kind cannot be told apart"),
        (of_one_kind, 2, "the classes explain 100 % of this division"),
        (lone, None, "120 of 120 pictures are the only one of their class"),
        (lone, 2, "120 of 120 pictures are the only one of their class"),
    ):
        (note,) = discovered(rows, classes, k).notes
        assert expected in note and "--unlabelled" in note and "finds 2 domains (60 and 60 pictures)" in note
    found = discovered(rows, mixed)
    assert found.found.k == 2 and found.notes == []
    assert discovered(noise, mixed).notes == []
    assert discovered(noise, np.zeros(number, np.int64)).notes == []


def test_discover_pictures_that_are_all_the_same_are_not_called_few():
    rows, classes = np.ones((70, 5)), np.arange(70) % 7
    line, meaning = discovered(rows, classes).summary()
    assert line == "70 pictures: one domain (too few that differ, 1 of 70, to look for more)"
    assert "40 different pictures are needed" in meaning
    rows = np.random.default_rng(0).normal(size=(10, 5))
    assert discovered(rows, classes[:10]).summary()[0] == "10 pictures: one domain (too few pictures to look for more)"


def test_uncertain_domains_are_named_as_on_the_page():
    rng = np.random.default_rng(1)
    rows, classes = rng.normal(size=(300, 12)), rng.integers(0, 3, 300)
    found = discovered(rows, classes, 3)
    doubtful = [latent_name(domain) for domain, value in enumerate(found.found.stability) if value < UNCERTAIN]
    assert doubtful and found.uncertain == doubtful
    assert f"{', '.join(doubtful)} uncertain" in found.meaning and ", uncertain" in "".join(found.summary())
    rows[::2] += 9
    sure = discovered(rows, classes, 2)
    assert sure.uncertain == [] and "find them again" in sure.meaning and "  s₁: 150 pictures" in sure.summary()[1]


def test_discover_a_domain_that_is_a_folder_is_said_without_classes():
    rows = np.random.default_rng(0).normal(size=(120, 5))
    rows[80:] += 9
    files = [Path("pile") / ("sick" if number >= 80 else "well") / f"{number}.png" for number in range(120)]
    pile = TaskImages((Domain("pile", Path(), (), Found()),), (), (), ())
    statistics = Statistics(rows, np.full(120, UNKNOWN), np.zeros(120, np.int64), files)
    (note,) = discover(pile, USUAL, statistics, None, 0).notes
    assert note.endswith(
        "may be a class, or what pictures show: s₁ is nearly the folder well, s₂ is nearly the folder sick"
    )


def test_what_differs_by_itself(tmp_path):
    rng, files = np.random.default_rng(0), {"small": [], "large": []}
    for number in range(6):
        image = cv2.GaussianBlur(rng.integers(0, 256, (80, 90, 3), np.uint8), (0, 0), 1)
        for name, kind, side in (("small", "png", 20), ("large", "jpg", 80 + number)):
            files[name].append(tmp_path / f"{name}{number}.{kind}")
            cv2.imwrite(str(files[name][-1]), cv2.resize(image, (side, side)))
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"no picture")
    small, large = file_facts([*files["small"], broken]), file_facts(files["large"])
    said = what_differs([small, large], ["s₁", "s₂"])
    assert "size (median 20² pixels in s₁, 82 in s₂)" in said and "png (0 % of s₂, 100 % of s₁)" in said
    assert small.cells[0] == "20²" and small.cells[2] == "png 100 %" and small.cells[3] == "0"
    assert what_differs([small, small], ["s₁", "s₂"]) == [] and what_differs([small, file_facts([])], ["a", "b"]) == []
