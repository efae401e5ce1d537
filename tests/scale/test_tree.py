"""The trees that scale is measured on."""

import numpy as np
import pytest

from tests.scale.tree import CLASSES, DOMAINS, PICTURES, counts, plant


def test_the_whole_tree_has_domainnets_numbers():
    found = counts(PICTURES, 0)
    assert {domain: of_classes.sum() for domain, of_classes in found.items()} == DOMAINS
    assert all(len(of_classes) == CLASSES and of_classes.min() >= 1 for of_classes in found.values())
    assert found["real"].max() > 3 * np.median(found["real"])


@pytest.mark.slow
def test_a_seed_decides_every_picture(tmp_path):
    def files(name, seed):
        plant(tmp_path / name, 2100, seed)
        return {file.relative_to(tmp_path / name): file.read_bytes() for file in (tmp_path / name).rglob("*.jpg")}

    first, again, other = files("first", 1), files("again", 1), files("other", 2)
    assert first == again and first != other
    assert len(first) == sum(of_classes.sum() for of_classes in counts(2100, 1).values())
    assert len(set(first.values())) == len(first)
