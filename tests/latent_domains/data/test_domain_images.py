"""What folders of images are taken for, and which are refused."""

import os
import shlex
import shutil
from pathlib import Path

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data.domain_images import TaskImages, notes_on_classes, read_domains, read_images, read_piles
from latent_domains.data.names import domain_names
from tests.shapes import CLASSES, plant_domain


@pytest.fixture
def night(tmp_path: Path) -> Path:
    return plant_domain(tmp_path / "night", "night", 2)


@pytest.fixture
def day(tmp_path: Path) -> Path:
    return plant_domain(tmp_path / "day", "day", 2)


@pytest.fixture
def dusk(tmp_path: Path) -> Path:
    return plant_domain(tmp_path / "dusk", "dusk", 2)


def refusal(*arguments: object, **options: object) -> str:
    with pytest.raises(ProgramError) as error:
        read_images(*arguments, **options)
    return str(error.value)


def labels(images: TaskImages) -> list[int]:
    return [entry.label for entry in images.targets[0].entries]


def test_domains_classes_and_labels(night, day, dusk):
    images = read_images([night, day], [dusk])
    assert [source.name for source in images.sources] == ["night", "day"] and images.targets[0].name == "dusk"
    assert images.classes == CLASSES and images.targets[0].labelled and images.notes == ()
    assert labels(images) == [0, 0, 1, 1, 2, 2]
    assert [entry.name for entry in images.sources[0].entries][:2] == ["cross/0.png", "cross/1.png"]
    shutil.rmtree(dusk / "disc")  # a target may lack classes
    images = read_images([night], [dusk])
    assert labels(images) == [0, 0, 2, 2] and images.notes == (f"{dusk}: no images of disc",)


def test_read_images_a_target_without_class_folders_is_unlabelled(night, dusk, tmp_path):
    folder = tmp_path / "loose" / "2019" / "may"
    folder.mkdir(parents=True)
    for number, file in enumerate(sorted(dusk.rglob("*.png"))):
        shutil.copyfile(file, folder / f"{number}.png")
    images = read_images([night], [tmp_path / "loose"])
    assert not images.targets[0].labelled and labels(images) == [-1] * 6
    (note,) = images.notes
    assert note == f"{tmp_path / 'loose'}: taken as unlabelled, so there will be predictions, but no accuracy"


def test_read_images_a_target_may_spell_classes_as_a_mac_does(night, dusk):
    (night / "disc").rename(night / "caf\u00e9")
    (night / "cafe\u0301").mkdir()  # the same class, without images
    (dusk / "disc").rename(dusk / "cafe\u0301")
    images = read_images([night], [dusk])
    assert images.targets[0].labelled and images.notes == () and "caf\u00e9" in images.classes
    assert sorted(labels(images)) == [0, 0, 1, 1, 2, 2]


def test_read_images_classes_that_disagree(night, day, dusk):
    (day / "disc").rename(day / "Disc")
    said = refusal([night, day], [dusk])
    assert said.startswith(f"{night}: no images of Disc, which other sources have; check the spelling, or pass")
    images = read_images([night, day], [dusk], allow_missing_classes=True)
    assert images.classes == ("Disc", "cross", "disc", "square")
    assert f"{day}: no images of disc, which other sources have" in images.notes
    shutil.rmtree(day / "Disc")
    (day / "disc").mkdir()  # an empty folder is no images either
    assert refusal([night, day], [dusk]).startswith(f"{day}: no images of disc, which other sources have;")
    assert refusal([day], [dusk]).startswith(f"{day}: no images of disc; check the spelling")


def test_read_images_class_folders_of_the_target_that_no_source_has(night, dusk):
    (dusk / "disc").rename(dusk / "ring")
    said = refusal([night], [dusk])
    assert said.startswith(f"{dusk}: no source has the classes ring, expected some of cross, disc, square")
    assert "--unlabelled" in said
    assert not read_images([night], [dusk], unlabelled=True).targets[0].labelled
    (dusk / "ring").rename(dusk / "disc")
    shutil.copyfile(dusk / "cross" / "0.png", dusk / "beside.png")
    assert refusal([night], [dusk]).startswith(f"{dusk}: beside.png lies beside the class folders")
    (dusk / "beside.png").unlink()
    for shape in CLASSES:  # else no accuracy would be said of a labelled target
        (dusk / shape).rename(dusk / shape.upper())
    said = refusal([night], [dusk])
    assert said.startswith(f"{dusk}: no source has the classes CROSS, DISC, SQUARE, expected some of cross, disc")


def test_read_images_too_little(night, day, dusk, tmp_path):
    for name in ("disc", "square"):
        shutil.rmtree(night / name)
    assert "one class, cross, expected a folder for each of at least two classes" in refusal([night], [dusk])
    (tmp_path / "bare").mkdir()
    assert "no folders in it, expected one for each class" in refusal([tmp_path / "bare"], [dusk])
    assert f"{tmp_path / 'bare'}: no images in it" in refusal([day], [tmp_path / "bare"])
    shutil.rmtree(dusk)
    (dusk / "cross").mkdir(parents=True)
    shutil.copyfile(day / "cross" / "0.png", dusk / "cross" / "0.png")
    assert f"{dusk}: 1 image, expected at least 2 of a domain" in refusal([day], [dusk])
    assert "no such folder, expected a folder" in refusal([day], [tmp_path / "none"])


def down(domain: Path, name: str = "images") -> Path:
    """Put a domain's folders into one in it."""
    aside = domain.rename(domain.with_name("aside"))
    domain.mkdir()
    aside.rename(domain / name)
    return domain


def test_domains_are_not_taken_for_classes(night, day, dusk, tmp_path):
    said = refusal([down(night)], [dusk])
    assert said.startswith(f"{night}: its folder images holds the folders cross, disc, square, so it looks like a dom")
    assert f" each by itself, as in --source {night}/images; for classes pass" in said
    assert read_images([night / "images", day], [dusk]).notes == ()
    (tmp_path / "all" / "empty").mkdir(parents=True)  # hides nothing
    (night / "images").rename(tmp_path / "all" / "night sky")
    day.rename(tmp_path / "all" / "day")
    said = refusal([tmp_path / "all"], [dusk])
    assert "folders day, night sky hold the same folders cross, disc, square, so they look like domains, not" in said
    options = shlex.join(["--source", str(tmp_path / "all/day"), "--source", str(tmp_path / "all/night sky")])
    assert f"though both are possible: give those that you mean, each by itself, as in {options}; for classes" in said


def test_read_images_classes_that_hold_the_same_folders_each(night, day, dusk):
    for shape in CLASSES:
        for number, name in enumerate(("2019", "2020")):
            (night / shape / name).mkdir()
            (night / shape / f"{number}.png").rename(night / shape / name / "0.png")
    said = refusal([night], [dusk])
    assert said.startswith(f"{night}: its folders cross, disc, square hold the same folders 2019, 2020, so they look")
    images = read_images([night], [dusk], folders_are_classes=True)
    assert images.notes == () and [entry.label for entry in images.sources[0].entries] == [0, 0, 1, 1, 2, 2]
    assert read_images([night, day], [dusk]).notes == ()  # the other source tells what the classes are


def test_read_images_classes_that_lie_deeper_in_a_target(night, dusk):
    assert refusal([night], [down(dusk)]) == (
        f"{dusk}: its folder images holds the folders cross, disc, square, so it looks like a domain, not a class: "
        f"give those that you mean, each by itself, as in --target {dusk}/images; or pass --unlabelled if folder names "
        "are no labels there"
    )
    assert not read_images([night], [dusk], unlabelled=True).targets[0].labelled
    for number, shape in enumerate(CLASSES):  # folders of other names are no labels
        (night / shape).rename(night / f"class {number}")
    assert not read_images([night], [dusk]).targets[0].labelled


def test_domains_side_by_side(night, day, dusk, tmp_path):
    for domain in (night, day, dusk):
        (tmp_path / "all").mkdir(exist_ok=True)
        domain.rename(tmp_path / "all" / domain.name)
    assert [one.name for one in read_domains(tmp_path / "all").domains] == ["day", "dusk", "night"]
    down(tmp_path / "all" / "dusk")
    (tmp_path / "links").mkdir()
    for name, place in (("lamplight", "day"), ("twilight", "dusk/images")):
        (tmp_path / "links" / name).symlink_to(tmp_path / "all" / place)
    assert [one.name for one in read_domains(tmp_path / "links").domains] == ["lamplight", "twilight"]
    with pytest.raises(ProgramError) as raised:
        read_domains(tmp_path / "all")
    assert str(raised.value) == (
        f"{tmp_path}/all/dusk: its folder images holds the folders cross, disc, square, so it looks like a domain, not "
        f"a class: expected DIR/DOMAIN/CLASS/…/IMAGE: make a folder DIR of links to {tmp_path}/all/dusk/images; for "
        "classes pass --folders-are-classes"
    )
    assert len(read_domains(tmp_path / "all", folders_are_classes=True).classes) == 4
    message = "no two of its folders cross, disc, .* hold a folder of the same name, so they look like classes, not dom"
    for shape in CLASSES:
        (tmp_path / "all" / "day" / shape / shape).mkdir()
        (tmp_path / "all" / "day" / shape / "0.png").rename(tmp_path / "all" / "day" / shape / shape / "0.png")
    with pytest.raises(ProgramError, match=message):
        read_domains(tmp_path / "all" / "day")


def test_read_piles_folders_of_other_classes_are_no_domains_of_one_pile(night, day):
    """Each style would be taken for an effect of its classes: no latent domains would be found."""
    assert read_piles([night, day]).notes == ()
    (day / "disc").rename(day / "Disc")
    assert read_piles([night, day]).notes == (
        f"{night}: no images of Disc, which other sources have",
        f"{day}: no images of disc, which other sources have",
    )
    for shape in ("cross", "square"):
        (day / shape).rename(day / shape.upper())
    (day / "cross").mkdir()  # without pictures it is no class of both
    with pytest.raises(ProgramError, match=r"no two of them have a folder of the same name.*or pass --unlabelled"):
        read_piles([night, day])
    assert len(read_piles([night, day], unlabelled=True).sources) == 2


def test_read_images_linked_folders_are_used_and_what_is_not_is_said(night, day, dusk, tmp_path):
    (night / "disc").rename(tmp_path / "far")
    (night / "disc").symlink_to(tmp_path / "far")
    (tmp_path / "far" / "more").symlink_to(day / "disc")
    (dusk / "cross" / "up").symlink_to(dusk)
    (day / ".DS_Store").touch()
    (day / "cross" / os.fsdecode(b"caf\xe9.txt")).touch()
    images = read_images([night, day], [dusk])
    assert [domain.found.counted()[:8] for domain in images.domains] == ["8 images", "6 images", "6 images"]
    others, unread = sorted(set(images.notes))
    text = "left out 1 file (no image by name, or in no class folder): "
    assert others.startswith(text) and others.endswith("/caf\ufffd.txt")
    assert unread.startswith(f"not read: {dusk / 'cross' / 'up'} (a link to a folder that is read already, or")


def test_notes_on_classes_classes_of_few_or_many_images_are_said(tmp_path):
    night, day, dusk = (plant_domain(tmp_path / look, look, 10) for look in ("night", "day", "dusk"))
    assert list(notes_on_classes(read_images([night, day], [dusk]), equal=False)) == []
    for number in range(1, 10):
        (day / "disc" / f"{number}.png").unlink()
    assert list(notes_on_classes(read_images([night, day], [dusk]), equal=False)) == [
        f"{day}: 1 image of disc: so few that the accuracy depends on which they are",
        f"{day}: 10 images of cross, 1 of disc: the classifier learns the frequent classes first",
    ]
    *_, note = notes_on_classes(read_images([night, day], [dusk]), equal=True)
    assert note == f"{day}: 10 images of cross, 1 of disc: images of rare classes repeat"


def test_domain_names_names_that_files_and_layers_can_bear():
    folders = ["a/images", "b/images", "c/my art (new)+old", "d/фото", "e/नदी", "e/e\u0301t\u00e9", "f/€", "f/.x"]
    names = ["images", "images_2", "my_art_new_old", "фото", "नदी", "\u00e9t\u00e9", "_", "x"]
    assert domain_names([Path("/") / folder for folder in folders]) == names
