"""Keep a table's records and pictures in a folder of their own."""

import shutil
from pathlib import Path

from latent_domains.common.files import write_aside
from latent_domains.runs.kept import FILE, read_records, write_records
from latent_domains.tables.definition import Table
from latent_domains.tables.records import Records


def save(table: Table, records: Records, report: Path | None, folder: Path) -> str:
    """Copy to ``folder`` the records of a table's runs and the pictures of its report, if any.

    Records of other runs that are there stay.

    Returns what was copied, in words. Raises ProgramError, before anything is written, if a record is damaged.
    """
    found = {one.name: record for one in table.runs if (record := records.read(one)) is not None}
    file = folder / FILE
    write_records(file, {**(read_records(file) if file.exists() else {}), **found})
    pictures = sorted((report / "figures").glob("*.png")) if report else []
    for picture in pictures:
        with write_aside(folder / "figures" / picture.name) as aside:
            shutil.copyfile(picture, aside)
    return f"records of {len(found)} of {len(table.runs)} runs, pictures: {len(pictures)}"
