import os
import re
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from latent_domains.common.program import ProgramError
from latent_domains.data.image_list import Entry, Found, read_class_tree, read_classes, read_list

NOBODY = 65534


@pytest.fixture
def as_nobody() -> Iterator[Path]:
    """A folder for a user whom permissions stop: root reads everything."""
    root = os.geteuid() == 0
    # A folder in TMPDIR may be one that nobody else may enter.
    with TemporaryDirectory(dir="/var/tmp") as name:
        if root:
            os.chown(name, NOBODY, NOBODY)
            os.seteuid(NOBODY)
        try:
            yield Path(name)
        finally:
            if root:
                os.seteuid(0)
            for folder in Path(name).rglob("*/"):
                folder.chmod(0o700)


def listing(tmp_path: Path, text: str | bytes) -> Path:
    path = tmp_path / "list.txt"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def tree(root: Path, *files: str) -> Path:
    for file in files:
        (root / file).parent.mkdir(parents=True, exist_ok=True)
        (root / file).touch()
    return root


def read_tree(root: Path) -> tuple[list[Entry], list[str], Found]:
    found = read_class_tree(root)
    return found.entries(found.class_names), found.class_names, found.found


def test_entry_the_last_blank_of_a_line_separates_path_and_label(tmp_path):
    path = listing(tmp_path, "\ufeffa.jpg 0\nwith two  blanks.jpg 12\r\n\n  tab.png\t-1\nno newline.png 3")
    entries = read_list(path, Path("root"))
    found = [("a.jpg", 0), ("with two  blanks.jpg", 12), ("  tab.png", -1), ("no newline.png", 3)]
    assert entries == [Entry(f"root/{name}", name, label) for name, label in found]


NO_LABELS = ("1.5", "1_0", "٣", "3e9", "2147483648", "9" * 30)


@pytest.mark.parametrize("line", ["a.jpg", "7", *(f"a.jpg {label}" for label in NO_LABELS)])
def test_read_list_a_bad_line_is_named(tmp_path, line):
    expected = f"list.txt, line 2: found '{line}', expected 'PATH LABEL', the label a whole number from -2147483648 to "
    with pytest.raises(ProgramError, match=re.escape(expected) + "2147483647$"):
        read_list(listing(tmp_path, f"good.jpg 2147483647\n{line}\n"), Path())
    with pytest.raises(ProgramError, match=r"list\.txt.* no lines"):
        read_list(listing(tmp_path, "\n \n"), Path())


def test_read_list_several_labels_in_a_line_are_told_from_a_name_that_ends_in_a_number(tmp_path):
    (tmp_path / "photo 12").touch()
    path = listing(tmp_path, "photo 12 3\na.jpg 1\na.jpg 1 0 3\n")
    with pytest.raises(
        ProgramError, match=r"line 3: found 'a\.jpg 1 0 3' and no picture 'a\.jpg 1 0', expected one label"
    ):
        read_list(path, tmp_path)
    assert [entry.label for entry in read_list(listing(tmp_path, "photo 12 3\na.jpg 1\n"), tmp_path)] == [3, 1]


@pytest.mark.parametrize("read", [lambda path: read_list(path, Path()), read_classes])
def test_read_list_what_is_no_text_file_is_named_and_nobody_waits_for_a_fifo_or_fills_the_memory(read, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    for name, message in (("fifo", "no regular file, expected a text file"), ("absent", ".*No such file")):
        with pytest.raises(ProgramError, match=f"{name}: {message}"):
            read(tmp_path / name)
    huge = tmp_path / "huge"
    huge.touch()
    os.truncate(huge, 1 << 42)  # it takes no room
    with pytest.raises(ProgramError, match=f"{huge}: not enough memory"):
        read(huge)


def test_found_the_sorted_folders_of_a_tree_are_its_classes(tmp_path):
    hidden = ("zebra/.hidden.jpg", ".git/x.jpg", "__MACOSX/cat/._3.jpeg", "dog/.cache/4.jpg")
    hidden += ("@eaDir/dog/1.jpg", "dog/@eaDir/1.png/SYNOFILE_THUMB_M.jpg")
    shown = ("dog/2.JPG", "dog/1.png", "cat/deep/3.jpeg", "cat/notes.txt", "stray.jpg")
    root = tree(tmp_path / "r", *hidden, *shown)
    entries, classes, found = read_tree(root)
    assert classes == ["cat", "dog", "zebra"]
    labels = {"cat/deep/3.jpeg": 0, "dog/1.png": 1, "dog/2.JPG": 1}
    assert entries == [Entry(f"{root}/{name}", name, label) for name, label in labels.items()]
    assert found.others == [root / "stray.jpg", root / "cat/notes.txt"] and not found.unread
    assert found.counted() == "3 images of 5 files"
    assert Found(["1.png"]).counted() == "1 image of 1 file"
    assert found.left_out() == [
        f"left out 2 files (no image by name, or in no class folder): {root / 'stray.jpg'} and 1 more"
    ]


@pytest.mark.parametrize("name", [os.fsdecode(b"caf\xe9"), "two\u2028lines", "blank ", "bell\a"])
def test_read_class_tree_a_class_whose_name_no_line_can_hold_is_named(name, tmp_path):
    root = tree(tmp_path / "r", f"{name}/1.png")
    with pytest.raises(ProgramError) as raised:
        read_tree(root)
    assert str(raised.value) == f"{root}: the class folder {name!r} has a name that no text file can hold: rename it"


@pytest.mark.parametrize(
    ("folders", "expected"),
    [("2 10 0 1", "0 1 2 10"), ("01 1 10 2", "01 1 2 10"), ("2 10 a", "10 2 a"), ("٣ 10 2", "10 2 ٣")],
)
def test_read_class_tree_numbers_are_classes_in_the_order_of_numbers(folders, expected, tmp_path):
    root = tree(tmp_path / "r", *(f"{name}/1.png" for name in folders.split()))
    assert read_class_tree(root).class_names == expected.split()


def test_read_classes_a_class_is_the_same_as_a_mac_spells_it(tmp_path):
    composed, decomposed, joined = "caf\u00e9", "cafe\u0301", "می\u200cخواهم"
    root = tree(tmp_path / "r", f"{decomposed}/1.png", f"{composed}/2.png", f"{joined}/3.png")
    entries, classes, _ = read_tree(root)
    assert classes == [composed, joined]
    labels = {f"{decomposed}/1.png": 0, f"{composed}/2.png": 0, f"{joined}/3.png": 1}
    assert {entry.name: entry.label for entry in entries} == labels
    (tmp_path / "classes.txt").write_text(f"{joined}\n{decomposed}\n")
    assert read_classes(tmp_path / "classes.txt") == [joined, composed]


def test_read_class_tree_links_to_folders_are_followed_once(tmp_path):
    root, far = tree(tmp_path / "r", "dog/1.png", "dog/deep/2.png"), tree(tmp_path / "far", "3.png", "deeper/4.png")
    (root / "cat").symlink_to(far)
    (root / "dog" / "far").symlink_to(far)
    (root / "dog" / "far again").symlink_to(far)
    (root / "dog" / "deep" / "all").symlink_to(root)
    (far / "deeper" / "round").symlink_to(far)
    entries, _, found = read_tree(root)
    of_dog = ["dog/1.png", "dog/deep/2.png", "dog/far/3.png", "dog/far/deeper/4.png"]
    assert [entry.name for entry in entries] == ["cat/3.png", "cat/deeper/4.png", *of_dog]
    left = {str(path.relative_to(root)) for path in found.unread}
    assert left == {"cat/deeper/round", "dog/deep/all", "dog/far again", "dog/far/deeper/round"}
    assert "that is read already, or that holds it" in found.left_out()[0]


def test_read_class_tree_folders_that_cannot_be_read_are_named_and_counted(as_nobody):
    root = tree(as_nobody / "r", "dog/1.png", "dog/deep/2.png", "cat/3.png")
    for inside in ("dog/deep", "cat"):
        (root / inside).chmod(0)
    entries, classes, found = read_tree(root)
    assert classes == ["cat", "dog"] and [entry.name for entry in entries] == ["dog/1.png"]
    assert found.unread == {root / "cat": "Permission denied", root / "dog/deep": "Permission denied"}
    (root / "dog" / "1.png").unlink()
    with pytest.raises(ProgramError, match=r"no images in its class folders .*not read: .*cat \(Permission den"):
        read_tree(root)


def test_read_class_tree_a_tree_without_classes_or_images_is_named(tmp_path):
    with pytest.raises(ProgramError, match="absent: No such file"):
        read_tree(tmp_path / "absent")
    with pytest.raises(ProgramError, match="no folders in it"):
        read_tree(tree(tmp_path / "flat", "1.jpg"))
    with pytest.raises(ProgramError, match="no images in its class folders"):
        read_tree(tree(tmp_path / "bare", "dog/readme.txt"))


def test_read_classes_classes_are_one_name_a_line(tmp_path):
    file = tmp_path / "classes.txt"
    file.write_bytes("\ufeffdog\r\nguitar case\r\n".encode())  # as Windows has it
    assert read_classes(file) == ["dog", "guitar case"]
    for text in ("", "dog\n\ncat\n", "dog\ndog\n"):
        file.write_text(text)
        with pytest.raises(ProgramError, match=r"classes\.txt: expected one name in each line"):
            read_classes(file)
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(ProgramError, match=r"classes\.txt"):
        read_classes(file)
