import pytest

from latent_domains.data.sets.published import IMAGE_SETS, OFFICE31, OFFICE_CALTECH, PACS


@pytest.mark.parametrize(
    ("image_set", "totals"),
    [
        (OFFICE31, {"amazon": 2817, "dslr": 498, "webcam": 795}),
        (OFFICE_CALTECH, {"amazon": 958, "caltech": 1123, "dslr": 157, "webcam": 295}),
        (PACS, {"art_painting": 2048, "cartoon": 2344, "photo": 1670, "sketch": 3929}),
    ],
)
def test_the_classes_sum_up_to_the_papers_totals(image_set, totals):
    assert {domain: sum(counts.values()) for domain, counts in image_set.counts.items()} == totals


@pytest.mark.parametrize(("name", "classes"), [("office31", 31), ("office_caltech", 10), ("pacs", 7)])
def test_domains_and_classes_are_sorted_and_the_same_everywhere(name, classes):
    image_set = IMAGE_SETS[name]
    assert image_set.name == name and len(image_set.classes) == classes
    assert list(image_set.domains) == sorted(image_set.domains)
    for counts in image_set.counts.values():
        assert tuple(counts) == image_set.classes == tuple(sorted(image_set.classes))
        assert min(counts.values()) > 0


@pytest.mark.parametrize(
    ("folder", "name"),
    [
        ("mug", "mug"),
        ("Back_Pack", "back_pack"),
        ("backpack", "back_pack"),
        ("041.coffee-mug", "mug"),
        ("127.laptop-101", "laptop_computer"),
        ("Caltech10", "caltech"),
        ("256_ObjectCategories", "caltech"),
        ("Pony", "pony"),
    ],
)
def test_folder_names_of_the_archives_are_known(folder, name):
    assert OFFICE_CALTECH.canonical(folder) == name


def test_classes_of_the_larger_sets_are_told_from_strange_ones():
    assert OFFICE_CALTECH.is_of_larger_set("trash_can") and OFFICE_CALTECH.is_of_larger_set("257.clutter")
    assert not OFFICE_CALTECH.is_of_larger_set("mugs") and not OFFICE_CALTECH.is_of_larger_set("mug")
    assert not OFFICE31.is_of_larger_set("pony")
