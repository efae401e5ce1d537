"""Build an LMDB of images."""

import sys
from collections import Counter
from pathlib import Path

from tqdm import tqdm

from latent_domains.common.program import ProgramError
from latent_domains.data import lmdb_io
from latent_domains.data.image_datum import Format, make_all
from latent_domains.data.image_list import Entry


def build(
    entries: list[Entry],
    out: Path,
    form: Format,
    *,
    jobs: int = 1,
    classes: list[str] | None = None,
    skip_unreadable: bool = False,
    force: bool = False,
) -> tuple[int, int]:
    """Write the images to a new LMDB at ``out``, in the order of ``entries``. Return how many were stored and skipped.

    Raises ProgramError naming the first unreadable image (unless it may be skipped), or if nothing is left to store.
    """
    sizes: Counter[tuple[int, ...]] = Counter()
    skipped = 0
    with lmdb_io.create(out, force=force) as (writer, folder):
        results = tqdm(make_all(entries, form, jobs), desc=out.name, total=len(entries), unit="img")
        for entry, made in zip(entries, results, strict=True):
            if made.failure is not None:
                if not skip_unreadable:
                    raise ProgramError(f"{entry.file}: {made.failure} (--skip-unreadable leaves such images out)")
                tqdm.write(f"skipped {entry.file}: {made.failure}", file=sys.stderr)
                skipped += 1
                continue
            writer.put(entry.name, made.datum)
            sizes[made.shape] += 1
        if not sizes:
            raise ProgramError(f"none of the {len(entries)} images could be read")
        if classes is not None:
            (folder / "classes.txt").write_text("".join(f"{name}\n" for name in classes))
    if len(sizes) > 1:
        print(
            f"note: the images have {len(sizes)} different sizes; without --resize a Data layer takes them only one at "
            "a time, and compute_image_mean not at all",
            file=sys.stderr,
        )
    return sizes.total(), skipped
