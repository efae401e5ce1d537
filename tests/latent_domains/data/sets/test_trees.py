from pathlib import Path

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data.image_list import read_tree
from latent_domains.data.sets import trees
from latent_domains.data.sets.published import IMAGE_SETS, OFFICE31, OFFICE_CALTECH, PACS, ImageSet
from tests.image_trees import plant, scaled


def found(tree: trees.Tree) -> dict[str, dict[str, int]]:
    return {domain: {name: len(files) for name, files in images.items()} for domain, images in tree.images.items()}


# --- layouts


@pytest.mark.parametrize("name", IMAGE_SETS)
def test_a_tree_of_the_published_size_differs_in_nothing(tmp_path, name):
    image_set = IMAGE_SETS[name]
    tree = trees.read(plant(tmp_path, image_set.counts), image_set)
    assert found(tree) == image_set.counts
    assert trees.differences(image_set, tree) == []
    assert not any(domain.found.others or domain.found.unread for domain in tree.domains.values())
    for images in tree.images.values():
        for label, (class_name, entries) in enumerate(images.items()):
            assert class_name == image_set.classes[label]
            assert all(entry.label == label and entry.name.startswith(f"{class_name}/") for entry in entries)


@pytest.mark.parametrize("between", ["", "images"])
def test_an_images_level_is_found(tmp_path, between):
    plant(tmp_path, scaled(OFFICE31, 1), between)
    tree = trees.read(tmp_path, OFFICE31)
    assert found(tree) == scaled(OFFICE31, 1)
    entry = tree.images["dslr"]["bike"][0]
    assert entry.file == tmp_path / "dslr" / between / "bike" / "pic_0001.jpg"
    assert (entry.name, entry.label) == ("bike/pic_0001.jpg", 1)


def test_other_spellings_make_the_same_entries(tmp_path):
    plain = plant(tmp_path / "a", scaled(OFFICE_CALTECH, 2))
    other = plant(tmp_path / "b", scaled(OFFICE_CALTECH, 2))
    for domain in OFFICE_CALTECH.domains:
        (other / domain / "back_pack").rename(other / domain / "backpack")
        (other / domain / "laptop_computer").rename(other / domain / "Laptop")
    (other / "caltech" / "mug").rename(other / "caltech" / "041.coffee-mug")
    (other / "caltech").rename(other / "Caltech10")

    def entries(root: Path) -> list[tuple[str, str, int]]:
        images = trees.read(root, OFFICE_CALTECH).images
        return [(d, e.name, e.label) for d, classes in images.items() for c in classes.values() for e in c]

    assert sorted(entries(plain)) == sorted(entries(other)) and len(entries(plain)) == 80


def test_office_caltech_is_found_within_the_larger_sets(tmp_path):
    plant(tmp_path, scaled(OFFICE31, 1), "images")
    plant(tmp_path, {"256_ObjectCategories": {"001.ak47": 1, "041.coffee-mug": 3, "257.clutter": 1}})
    tree = trees.read(tmp_path, OFFICE_CALTECH)
    assert found(tree)["amazon"] == dict.fromkeys(OFFICE_CALTECH.classes, 1)
    assert found(tree)["caltech"] == {"mug": 3} and not any(tree.unknown.values())


def test_a_folder_without_the_domains_is_named(tmp_path):
    plant(tmp_path / "1", scaled(PACS, 1))
    with pytest.raises(ProgramError, match="none of the folders art_painting, cartoon, photo, sketch in it"):
        trees.read(tmp_path, PACS)
    with pytest.raises(ProgramError, match="absent: no such folder, expected one that holds art_painting"):
        trees.read(tmp_path / "absent", PACS)


def test_two_folders_of_one_name_are_an_error(tmp_path):
    plant(tmp_path, scaled(OFFICE_CALTECH, 1))
    (tmp_path / "amazon" / "backpack").mkdir()
    with pytest.raises(ProgramError, match=r"amazon/back_pack and .*amazon/backpack could both be back_pack"):
        trees.read(tmp_path, OFFICE_CALTECH)
    (tmp_path / "amazon" / "backpack").rmdir()
    (tmp_path / "Caltech10").mkdir()
    with pytest.raises(ProgramError, match=r"Caltech10 and .*caltech could both be caltech"):
        trees.read(tmp_path, OFFICE_CALTECH)


def test_files_are_told_apart_as_in_any_tree_of_class_folders(tmp_path):
    plant(tmp_path, {"photo": dict.fromkeys(PACS.classes, 2)})
    photo = tmp_path / "photo"
    (photo / "dog" / "deeper").mkdir()
    (photo / "dog" / "deeper" / "one.PNG").touch()
    (photo / "dog" / "link.jpg").symlink_to(photo / "dog" / "pic_0001.jpg")
    (photo / "dog" / "folder").symlink_to(photo)
    (photo / "dog" / ".hidden.jpg").touch()
    (photo / "dog" / ".cache").mkdir()
    (photo / "dog" / ".cache" / "thumb.jpg").touch()
    (photo / "dog" / "Thumbs.db").touch()
    (photo / "label.txt").touch()
    (photo / ".git").mkdir()
    expected, names, inside = read_tree(photo)
    tree = trees.read(tmp_path, PACS)
    assert names == list(PACS.classes) and len(expected) == 16
    assert [entry for entries in tree.images["photo"].values() for entry in entries] == expected
    assert list(tree.domains["photo"].found.unread) == list(inside.unread) == [photo / "dog" / "folder"]
    left_out = [photo / "dog" / "Thumbs.db", photo / "label.txt"]
    assert sorted(tree.domains["photo"].found.others) == sorted(inside.others) == left_out
    assert tree.domains["photo"].found.counted() == "16 images of 18 files"


# --- what differs


THREE = ImageSet("pacs", "PACS", scaled(PACS, 3))


def lines(root: Path) -> list[str]:
    """The table of what differs from three images in each class."""
    return [" ".join(row) for row in trees.differences(THREE, trees.read(root, THREE))]


def test_everything_missing_and_extra_is_in_one_table(tmp_path):
    there = scaled(PACS, 3)
    del there["photo"], there["cartoon"]["guitar"]
    there["cartoon"]["dogs"] = 4
    there["sketch"]["house"] += 7
    there["sketch"]["person"] -= 1
    there["art_painting"] = dict.fromkeys(PACS.classes, 0)
    assert lines(plant(tmp_path, there)) == [
        "art_painting all classes 0 21 no images in its class folders",
        "cartoon guitar 0 3 3 missing",
        "cartoon dogs 4 0 folder of no known class, left out",
        "photo all classes 0 21 no such folder",
        "sketch house 10 3 7 extra",
        "sketch person 2 3 1 missing",
    ]


def test_a_missing_class_shifts_no_label(tmp_path):
    plant(tmp_path, {"photo": {"house": 1, "person": 1}})
    images = trees.read(tmp_path, PACS).images["photo"]
    assert {name: entries[0].label for name, entries in images.items()} == {"house": 5, "person": 6}
