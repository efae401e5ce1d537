"""Domains that a CSV file says, found elsewhere or by hand."""

from collections.abc import Iterable, Sequence
from pathlib import Path, PurePosixPath

import numpy as np

from latent_domains.common.program import ProgramError
from latent_domains.common.wording import some
from latent_domains.data.domains_file import DomainsFile, domains_digest, read_domains_file
from latent_domains.data.lmdb_folder import is_lmdb
from latent_domains.data.lmdb_io import record_names
from latent_domains.data.names import safe_name
from latent_domains.domains.pictures import Pictures, Record, W


def assign(images: Pictures, k: int, seed: int) -> W:
    """Return what the file of the experiment's method says of each picture. Nothing is drawn by ``seed``.

    Rows of other domains of the dataset, such as a target's, are ignored. Refuses a file that lacks a picture, names
    one twice, or names one that the dataset lacks.
    """
    method, data = images.experiment.method, images.experiment.data
    if not method.domains_file:
        raise ProgramError(f"domains: {method.domains} without the file, expected the CSV file itself (--domains)")
    found = read_domains_file(file := Path(method.domains_file))
    if (digest := domains_digest(file)) != method.domains:
        raise ProgramError(f"{file}: found contents {digest}, expected {method.domains}: it was changed meanwhile")
    records = images.records("their domains are found by it")
    lmdbs = {images.lmdb_name(domain): domain for domain in data.domains}
    ours = [(lmdbs.get(lmdb, lmdb), name) for lmdb, name in records]
    others = {domain: images.data / data.train_lmdb(domain) for domain in data.domains}
    there = [record for domain, lmdb in others.items() if is_lmdb(lmdb) for record in _named(domain, lmdb)]
    rows = rows_of(found, ours, there)
    if not method.has_branch and not found.w[rows].any(axis=1).all():
        line = found.lines[next(row for row in rows if not found.w[row].any())]
        raise ProgramError(
            f"{found.file}: row {line}: no domain, expected one for each picture, or method mda, whose branch decides"
        )
    w = np.zeros((len(ours), k), np.float32)
    w[:, : found.k] = found.w[rows]
    return w


def _named(domain: str, lmdb: Path) -> Iterable[Record]:
    return ((domain, name) for name in record_names(lmdb))


def rows_of(found: DomainsFile, ours: Sequence[Record], others: Iterable[Record]) -> list[int]:
    """Return the number of the row of each of our pictures (domain and path). ``others`` may have rows, too."""
    there = dict.fromkeys(others, -1) | {record: place for place, record in enumerate(ours)}
    sources: dict[str, list[str]] = {}
    for source, name in there:
        sources.setdefault(name, []).append(source)
    rows: dict[int, int] = {}
    seen: dict[Record, int] = {}
    for number, ((source, picture), line) in enumerate(zip(found.pictures, found.lines, strict=True)):
        where = f"{found.file}: row {line}: the picture {picture!r}"
        named = _candidates(found.file.parent, source, picture, there, sources)
        if len(named) != 1:
            expected = "the path of a picture from its source's folder, or one that ends in SOURCE/PATH"
            if named:
                expected = f"one picture, found those of {some(one for one, _ in named)}: a column source tells which"
            raise ProgramError(f"{where}{f' of {source}' if source else ''} is unknown, expected {expected}")
        (record,) = named
        if record in seen:
            raise ProgramError(f"{where} is named twice, in row {seen[record]}, too, expected it once")
        seen[record] = line
        if there[record] >= 0:
            rows[there[record]] = number
    for place, (source, name) in enumerate(ours):
        if place not in rows:
            raise ProgramError(
                f"{found.file}: no row for the picture {name!r} of {source}, expected one for each picture of the "
                "sources (an empty domain says that it is unknown)"
            )
    return [rows[place] for place in range(len(ours))]


def _candidates(
    folder: Path, source: str | None, picture: str, there: dict[Record, int], sources: dict[str, list[str]]
) -> list[Record]:
    """Return the pictures that a row may mean: by source and path, by its end SOURCE/PATH, or by the path alone."""
    plain = str(PurePosixPath(picture))
    if source:
        return [one for one in [(safe_name(source), plain)] if one in there]
    parts = (folder / plain).parts
    ends = ((safe_name(parts[i]), "/".join(parts[i + 1 :])) for i in range(len(parts) - 1))
    return [end for end in ends if end in there] or [(one, plain) for one in sources.get(plain, [])]
