"""Office-31, Office-Caltech-10 and PACS to LMDBs, as a user does it: real pictures where they are at hand."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io, lmdb_plans
from latent_domains.data.image_list import ClassTree
from latent_domains.data.sets.image_sets import counted, differences, entries, read_domains
from latent_domains.data.sets.published import IMAGE_SETS, OFFICE31, OFFICE_CALTECH, OFFICE_HOME, PACS, ImageSet
from tests.image_trees import plant, scaled
from tests.programs import Done, interrupt, names, program, replacing

# --- trees


def counts(trees: dict[str, ClassTree], image_set: ImageSet) -> dict[str, dict[str, int]]:
    return {
        domain: {one.class_name: len(one.found.images) for one in tree.of_classes(image_set.classes).folders}
        for domain, tree in trees.items()
    }


@pytest.mark.parametrize("name", [name for name, image_set in IMAGE_SETS.items() if image_set.counts])
def test_entries_a_tree_of_the_published_size_differs_in_nothing(tmp_path, name):
    image_set = IMAGE_SETS[name]
    trees = read_domains(plant(tmp_path, image_set.counts), image_set)
    assert counts(trees, image_set) == image_set.counts and differences(image_set, trees) == []
    for tree in trees.values():
        assert not tree.found.others and not tree.found.unread
        assert all(entry.name.startswith(f"{image_set.classes[entry.label]}/") for entry in entries(tree, image_set))


def test_entries_other_spellings_make_the_same_entries(tmp_path):
    plain = plant(tmp_path / "a", scaled(OFFICE_CALTECH, 2))
    other = plant(tmp_path / "b", scaled(OFFICE_CALTECH, 2))
    for domain in OFFICE_CALTECH.domains:
        (other / domain / "back_pack").rename(other / domain / "backpack")
        (other / domain / "laptop_computer").rename(other / domain / "Laptop")
    (other / "caltech" / "mug").rename(other / "caltech" / "041.coffee-mug")
    (other / "caltech").rename(other / "Caltech10")

    def named(root: Path) -> dict[str, list[tuple[str, int]]]:
        trees = read_domains(root, OFFICE_CALTECH)
        return {name: [(e.name, e.label) for e in entries(tree, OFFICE_CALTECH)] for name, tree in trees.items()}

    assert named(plain) == named(other) and sum(map(len, named(plain).values())) == 80


def test_office_caltech_is_found_within_the_larger_sets(tmp_path):
    plant(tmp_path, scaled(OFFICE31, 1), "images")
    plant(tmp_path, {"256_ObjectCategories": {"001.ak47": 1, "041.coffee-mug": 3, "257.clutter": 1}})
    trees = read_domains(tmp_path, OFFICE_CALTECH)
    assert counts(trees, OFFICE_CALTECH)["amazon"] == dict.fromkeys(OFFICE_CALTECH.classes, 1)
    assert counts(trees, OFFICE_CALTECH)["caltech"] == {"mug": 3}
    assert "folder of no known class" not in str(differences(OFFICE_CALTECH, trees))


def test_read_domains_folders_that_are_missing_or_could_both_be_meant_are_named(tmp_path):
    with pytest.raises(ProgramError, match="absent: no such folder, expected one that holds art_painting"):
        read_domains(tmp_path / "absent", PACS)
    root = plant(tmp_path / "set", scaled(OFFICE_CALTECH, 1))
    with pytest.raises(ProgramError, match=r"none of the folders art_painting, cartoon, photo, sketch in it$"):
        read_domains(root, PACS)
    for near in (root / "amazon", tmp_path):
        with pytest.raises(ProgramError, match=rf"none of the folders .* in it; some are in --images {root}$"):
            read_domains(near, OFFICE_CALTECH)
    (root / "amazon" / "backpack").mkdir()
    with pytest.raises(ProgramError, match=r"amazon/back_pack and .*amazon/backpack could both be back_pack"):
        read_domains(root, OFFICE_CALTECH)
    (root / "Caltech10").mkdir()
    with pytest.raises(ProgramError, match=r"Caltech10 and .*caltech could both be caltech"):
        read_domains(root, OFFICE_CALTECH)


@pytest.mark.parametrize(("between", "named"), [("photo", "folder photo holds"), ("train test", "folders test, train")])
def test_read_domains_classes_that_lie_deeper_are_named(between, named, tmp_path):
    for folder in between.split():
        plant(tmp_path, {"photo": {"dog": 1, "cat": 1}}, folder)
    with pytest.raises(ProgramError) as raised:
        read_domains(tmp_path, PACS)
    places = ", ".join(f"{tmp_path}/photo/{folder}" for folder in sorted(between.split()))
    assert str(raised.value).startswith(f"{tmp_path}/photo: its {named} ") and "look" in str(raised.value)
    assert str(raised.value).endswith(f": expected {tmp_path}/photo/CLASS: move there what lies in {places}")


def test_differences_everything_missing_and_extra_is_in_one_table(tmp_path):
    there = scaled(PACS, 3)
    del there["photo"], there["cartoon"]["guitar"]
    there["cartoon"]["dogs"] = 4
    there["sketch"]["house"] += 7
    there["sketch"]["person"] -= 1
    there["art_painting"] = dict.fromkeys(PACS.classes, 0)
    three = ImageSet("pacs", "PACS", scaled(PACS, 3))
    trees = read_domains(plant(tmp_path, there), three)
    assert [" ".join(row) for row in differences(three, trees)] == [
        "art_painting all classes 0 21 no images in its class folders",
        "cartoon guitar 0 3 3 missing",
        "cartoon dogs 4 0 folder of no known class, left out",
        "photo all classes 0 21 no such folder",
        "sketch house 10 3 7 extra",
        "sketch person 2 3 1 missing",
    ]


def test_entries_a_missing_class_shifts_no_label(tmp_path):
    trees = read_domains(plant(tmp_path, {"photo": {"house": 1, "person": 1}}), PACS)
    assert [entry.label for entry in entries(trees["photo"], PACS)] == [5, 6]


def test_differences_classes_are_those_of_the_folders_where_only_totals_are_published(tmp_path):
    there = {"Art": {"Alarm_Clock": 2, "Bed": 3}, "Clipart": {"Bed": 4}, "Real World": {"Alarm_Clock": 2, "Bed": 2}}
    home = replace(OFFICE_HOME, totals={"art": 5, "clipart": 4, "product": 2, "real_world": 5})
    trees = read_domains(plant(tmp_path, there), home)
    found = home.with_found(counted(trees))
    assert found.classes == ("alarm_clock", "bed") and home.classes == ()
    assert [entry.label for entry in entries(trees["clipart"], found)] == [1] * 4
    assert [" ".join(row) for row in differences(found, trees)] == [
        "clipart alarm_clock 0 some no images, but other domains have this class",
        "product all classes 0 2 no such folder",
        "real_world all classes 4 5 1 missing",
    ]


# --- LMDBs


@pytest.fixture
def images(tmp_path, pacs_sample) -> Path:
    """A tree of PACS with two pictures of each domain and class."""
    root = tmp_path / "images"
    for domain in PACS.domains:
        for name in PACS.classes:
            (root / domain / name).mkdir(parents=True)
            for file in sorted((pacs_sample / domain / name).iterdir())[:2]:
                shutil.copyfile(file, root / domain / name / file.name)  # a mirror may be read-only, and so its files
    return root


def get(name: str, images: Path, tmp_path: Path, *options: object) -> Done:
    given = ("--images", images, "--out", tmp_path / "data", "--jobs", 1)
    return program("get_data", name, *replacing(given, options))


def test_image_sets_pictures_of_pacs_become_four_lmdbs(images, tmp_path):
    done = get("pacs", images, tmp_path, "--allow-incomplete")
    assert done.returncode == 0, done.stderr
    assert f"note: {images}: not PACS as published" in done.stderr and "error" not in done.stderr
    assert names(tmp_path / "data" / "pacs") == list(PACS.domains) and names(tmp_path / "data") == ["pacs"]
    for domain in PACS.domains:
        out = tmp_path / "data" / "pacs" / domain
        assert names(out) == ["classes.txt", "data.mdb", "source.json"]
        assert (out / "classes.txt").read_text().split() == list(PACS.classes)
        found = lmdb_io.describe(out)
        assert (found.shape, found.storage, found.same_size) == ((3, 256, 256), "raw", True)
        assert found.class_counts == dict.fromkeys(range(7), 2) and f"{out}: 14 images\n" in done.stdout
        labels = lmdb_io.read_labels(out)
        assert labels.tolist() != sorted(labels)
        note = json.loads((out / lmdb_plans.NOTE).read_text())
        assert note["records"] == note["recipe"]["images"] == 14 and str(tmp_path) not in json.dumps(note)
    moved = images.rename(tmp_path / "moved")
    done = get("pacs", moved, tmp_path, "--allow-incomplete")
    assert done.stdout == "".join(f"{tmp_path}/data/pacs/{domain}: built before\n" for domain in PACS.domains)


def test_image_sets_a_tree_of_an_office_set_becomes_lmdbs(pacs_sample, tmp_path):
    pictures = sorted(pacs_sample.glob("photo/*/*.jpg"))
    root = plant(tmp_path / "images", scaled(OFFICE31, 2), "images", pictures)
    done = get("office31", root, tmp_path, "--allow-incomplete")
    assert done.returncode == 0, done.stderr
    for domain in OFFICE31.domains:
        out = tmp_path / "data" / "office31" / domain
        found = lmdb_io.describe(out)
        assert (found.shape, found.storage) == ((3, 256, 256), "raw")
        assert found.class_counts == dict.fromkeys(range(len(OFFICE31.classes)), 2)
        for key, datum in lmdb_io.read(out):
            class_name, file = key.decode()[9:].split("/")
            assert OFFICE31.classes[datum.label] == class_name
            assert (root / domain / "images" / class_name / file).is_file()


# --- what is not as published


def test_image_sets_an_incomplete_tree_builds_nothing(images, tmp_path):
    shutil.rmtree(images / "cartoon")
    shutil.rmtree(images / "photo" / "horse")
    done = get("pacs", images, tmp_path)
    assert done.returncode == 1 and done.stdout == ""
    assert f"error: {images}: not PACS as published (40 images of its classes, published 9991):" in done.stderr
    table = [" ".join(line.replace("|", "").split()) for line in done.stderr.splitlines()]
    assert "cartoon all classes 0 2344 no such folder" in table
    assert "nothing was built; --allow-incomplete builds what is there" in table
    assert names(tmp_path) == ["images"]


def test_image_sets_domains_without_images_are_left_out_on_request(images, tmp_path):
    shutil.rmtree(images / "cartoon")
    shutil.rmtree(images / "photo")
    (images / "photo").mkdir()
    done = get("pacs", images, tmp_path, "--allow-incomplete")
    assert done.returncode == 0, done.stderr
    assert "| photo        | all classes |" in done.stderr
    assert names(tmp_path / "data" / "pacs") == ["art_painting", "sketch"]
    shutil.rmtree(images / "art_painting")
    shutil.rmtree(images / "sketch")
    done = get("pacs", images, tmp_path, "--allow-incomplete")
    assert done.returncode == 1 and "none of the images of PACS are there" in done.stderr


@pytest.mark.program
def test_image_sets_ctrl_c_leaves_whole_domains_and_a_second_run_goes_on(images, tmp_path):
    picture = min((images / "cartoon" / "dog").iterdir())
    for number in range(1000):
        (images / "cartoon" / "dog" / f"{number}.jpg").symlink_to(picture)
    arguments = ("pacs", "--images", images, "--out", tmp_path / "data", "--allow-incomplete", "--jobs", 2)
    code, stderr = interrupt("get_data", *arguments, at="cartoon:   0%", whole_group=True)
    assert code == 130 and "interrupted" in stderr and "Traceback" not in stderr
    folder = tmp_path / "data" / "pacs"
    assert names(folder) == ["art_painting"] and lmdb_io.count(folder / "art_painting") == 14
    for file in (images / "cartoon" / "dog").glob("[0-9]*.jpg"):
        if file.is_symlink():
            file.unlink()
    done = get("pacs", images, tmp_path, "--allow-incomplete")
    assert done.returncode == 0, done.stderr
    assert "art_painting: built before" in done.stdout and names(folder) == list(PACS.domains)


# --- command lines


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["pacs"], 2, "the following arguments are required: --images"),
        ([], 2, "the following arguments are required: {digits,"),
        (["demo", "--seed", "-1"], 2, "got '-1', expected a whole number of at least 0"),
        (["demo", "--mirror", "x"], 2, "unrecognized arguments: --mirror x"),
        (["office_caltech", "--images", "no such place"], 1, "no such place: no such folder, expected one that holds"),
    ],
)
def test_image_sets_a_wrong_command_line_is_explained(arguments, code, message):
    done = program("get_data", *arguments)
    assert done.returncode == code and message in done.stderr and "Traceback" not in done.stderr
