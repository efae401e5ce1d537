"""Latent domains of drawn pictures, and which of them are shown."""

import numpy as np
import pytest

from latent_domains.convert.torch.lite0_backbone import MIDDLE, feature_backbone
from latent_domains.data.domain_images import read_piles
from latent_domains.data.lmdb_plans import build_missing
from latent_domains.discovery.discover import chosen, discover
from latent_domains.discovery.page import shares_section
from latent_domains.discovery.pictures import plan_statistics, read_statistics
from latent_domains.report.classes import DRAWN
from latent_domains.report.page import Charts, TableBlock
from tests.shapes import plant_domain


@pytest.mark.slow
def test_most_certain_pictures_are_of_several_classes(tmp_path):
    pile = read_piles([plant_domain(tmp_path / look, look, 8) for look in ("night", "day")])
    parts = plan_statistics(pile, feature_backbone(MIDDLE), tmp_path / "out", jobs=2, skip_unreadable=False)
    assert build_missing(parts) == 48
    statistics = read_statistics(pile, [part.path for part in parts])
    assert statistics.rows.shape == (48, 80 + 112 + 192)
    found = discover(pile, statistics, 2, 0)
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
