"""Trees as people have them: which of their folders are classes, and which are domains or lie between."""

from itertools import product
from pathlib import Path

import pytest

from latent_domains.data.folder_tree import Domains, agree, domains_in
from latent_domains.data.image_list import read_class_tree


def below(*levels: str) -> list[str]:
    """The folders of a tree that has the names of each level in every folder of the one above."""
    return ["/".join(path) for path in product(*(level.split() for level in levels))]


def look(root: Path, *folders: str, pictures: int = 2) -> Domains | None:
    """What is found in ``root`` with that many pictures in each of the folders; FOLDER=N holds N of them."""
    for folder in folders:
        name, _, number = folder.partition("=")
        (root / name).mkdir(parents=True, exist_ok=True)
        for i in range(int(number or pictures)):
            (root / name / f"{i}.jpg").touch()
    return domains_in(read_class_tree(root))


THREE = "amazon dslr webcam"
TWO = "amazon dslr"

TREES = {
    "plain": (below(THREE, "mug pen"), THREE, ""),
    "a folder between": (below(THREE, "images", "mug pen"), THREE, "amazon/images dslr/images webcam/images"),
    "two folders between": (below(TWO, "images", "256", "mug pen"), TWO, "amazon/images/256 dslr/images/256"),
    "a folder of the same name between": (
        [*below("art", "art", "mug pen"), *below("real", "real", "mug pen")],
        "art real",
        "art/art real/real",
    ),
    "splits in each domain": (
        below(TWO, "train test", "mug pen"),
        TWO,
        "amazon/test amazon/train dslr/test dslr/train",
    ),
    "domains in each split": (below("train test", TWO, "mug pen"), "test train", ""),
    "splits of one domain": (below("train val", "mug pen"), "train val", ""),
    "an unlabelled split": ([*below("train val", "bus car"), "test=1"], "train val", ""),
    "several depths": (
        [*below("amazon", "images", "mug pen"), *below("dslr", "mug pen"), *below("webcam", "train val", "mug pen")],
        THREE,
        "amazon/images dslr webcam/train webcam/val",
    ),
    "in a folder": (below("kfold", TWO, "mug pen"), "kfold/amazon kfold/dslr", ""),
    "pictures lie about": (["amazon=1", "dslr=3", *below(TWO, "mug pen")], TWO, ""),
    "pictures lie about a folder between": (
        ["amazon=1", "dslr/images=2", *below(TWO, "images", "mug pen")],
        TWO,
        "amazon/images dslr/images",
    ),
    "another folder beside the one between": (
        ["amazon/thumbs=1", *below(TWO, "images", "mug pen")],
        TWO,
        "amazon/images dslr/images",
    ),
    "classes agree in part": ([*below("amazon", "mug pen cup"), *below("dslr", "mug pen bike")], TWO, ""),
    "one has few classes": ([*below("amazon", "mug pen cup bike ruler"), *below("dslr", "mug pen")], TWO, ""),
    "names differ in case": ([*below("amazon", "Mug Desk_Lamp"), *below("dslr", "mug desk-lamp")], TWO, ""),
    "a third folder is something else": ([*below(TWO, "mug pen"), "scans/a", "scans/b"], TWO, ""),
    "small folders beside them": ([*below(TWO, "mug pen"), "a=1", "b=1", "c=1"], TWO, ""),
    "two data sets": ([*below(TWO, "mug pen"), *below("art real", "bed sink")], "amazon art dslr real", ""),
    "years, cameras or persons": (below("cat dog", "2019 2020"), "cat dog", ""),
    "splits in each class": (below("cat dog", "train val"), "cat dog", ""),
    "one domain, a folder between": (below("images", "mug pen"), "images", ""),
    "one domain, two between": (below("amazon", "images", "mug pen"), "amazon/images", ""),
    "a split without classes": ([*below("Train", "mug pen"), "Val=3"], "Train", ""),
    "splits of other classes": ([*below("train", "mug pen"), *below("test", "cup bike")], "test train", ""),
    "more of the classes beside them": (["mug", "pen", *below("more", "images", "mug pen")], "more", "more/images"),
}
"""Name → a tree's folders, those that look like domains, and the folders of their classes if these are others."""


@pytest.mark.parametrize("case", TREES)
def test_domains_are_found_and_where_their_classes_are(case, tmp_path):
    folders, expected, holders = TREES[case]
    found = look(tmp_path, *folders)
    assert found and found.sure
    assert found.folders == tuple(tmp_path / name for name in expected.split())
    assert found.holders == tuple(tmp_path / name for name in (holders or expected).split())


CLASSES = {
    "flat": "cat dog bird",
    "one": "dog",
    "one with a folder": "dog/2019",
    "folders that differ": "dog/husky dog/poodle cat/siamese cat/persian bird",
    "folders of the same name in others": "dog/husky/old dog/poodle/old dog/poodle/new cat/siamese/old cat/persian/new",
    "one folder of the same name": "dog/husky dog/other cat/siamese cat/other bird/parrot bird/other",
    "one year in common": "dog/2019 dog/2020 dog/2021 cat/2021 cat/2022 cat/2023",
    "a folder between each class and its pictures": "dog/images cat/images bird/images",
    "two of many have the same folders": "car/left car/right bus/left bus/right cat dog bird bed mug pen",
    "most pictures lie beside the same folders": "dog=9 dog/more dog/new cat=9 cat/more cat/new",
    "a vehicle called train": "bus=9 car=9 train=2 train/steam train/diesel",
}


@pytest.mark.parametrize("case", CLASSES)
def test_domains_in_classes_are_left_alone(case, tmp_path):
    assert look(tmp_path, *CLASSES[case].split()) is None


@pytest.mark.parametrize("folders", ["dog/2019 dog/2020", "photo/cat photo/dog"])
def test_domains_in_a_lone_folder_that_holds_folders_may_be_a_class_or_a_domain(folders, tmp_path):
    found = look(tmp_path, *folders.split())
    assert found and "looks like a domain, not a class, though both are possible: " in str(found.error("do this"))
    assert not found.sure and found.folders == found.holders == (tmp_path / folders.partition("/")[0],)


def test_domains_in_what_is_hidden_or_empty_does_not_count(tmp_path):
    for name in ("__MACOSX/images/mug", "dslr/images/mug", ".git/images/pen", "amazon/.cache/images"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "amazon/lists").mkdir()
    (tmp_path / "amazon/lists/mug.txt").touch()
    found = look(tmp_path, *below("amazon", "images", "mug pen"))
    assert found and found.sure and found.holders == (tmp_path / "amazon/images",)


def test_domains_in_links_count_as_what_they_lead_to(tmp_path):
    look(tmp_path / "far", *below("classes", "mug pen"))
    for name in ("amazon", "dslr"):
        (tmp_path / "all" / name).mkdir(parents=True)
        (tmp_path / "all" / name / "pictures").symlink_to(tmp_path / "far" / "classes")
    found = look(tmp_path / "all")
    assert found and found.holders == (tmp_path / "all/amazon/pictures", tmp_path / "all/dslr/pictures")


def test_domains_in_the_error_names_the_folders_and_says_whether_both_readings_are_possible(tmp_path):
    found = look(tmp_path / "a", *below(TWO, "images", "mug pen"))
    assert found and str(found.error("do this")) == (
        f"{tmp_path}/a: its folders amazon, dslr hold the same folders mug, pen, so they look like domains, not "
        "classes: do this; for classes pass --folders-are-classes"
    )
    found = look(tmp_path / "b", *below("cat dog", "2019 2020"))
    assert found and str(found.error("do this")) == (
        f"{tmp_path}/b: its folders cat, dog hold the same folders 2019, 2020, so they look like domains, not classes, "
        "though both are possible: do this; for classes pass --folders-are-classes"
    )
    found = look(tmp_path / "c", *below("images", "mug pen"))
    assert found and str(found.error("do this", "or that")) == (
        f"{tmp_path}/c: its folder images holds the folders mug, pen, so it looks like a domain, not a class: do this; "
        "or that"
    )


def test_domains_in_masks_beside_pictures_are_no_classes(tmp_path):
    found = look(tmp_path / "a", *below("cat dog", "images Masks"))
    assert found and str(found.error("do this")) == (
        f"{tmp_path}/a: its folders cat, dog hold Masks beside images, which would be pictures, too: make a folder DIR "
        f"of links to images alone, as by ln -s {tmp_path}/a/cat/images DIR/cat"
    )
    found = look(tmp_path / "b", *below(TWO, "mug pen masks"))
    assert found and "the same folders masks, mug, pen, so they look like domains" in str(found.error("do this"))


def test_agree_names_agree_if_half_of_them_and_two_do():
    assert agree(["Mug", "back pack", "x"], ["mug", "back_pack", "y", "z"])
    assert not agree(["mug"], ["mug"]) and not agree(["mug", "pen"], ["mug", "cup"])
    assert not agree("abcde", "dexyz")
