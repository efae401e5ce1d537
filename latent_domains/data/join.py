"""Join LMDBs into one undivided mixture."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from tqdm import tqdm

from latent_domains.common.artefact import make_missing
from latent_domains.common.files import check_apart, check_named, read_text
from latent_domains.common.program import ProgramError
from latent_domains.common.wording import by
from latent_domains.data import lmdb_io
from latent_domains.data.lmdb_folder import DOMAINS, read_note
from latent_domains.data.lmdb_plans import (
    NewRecords,
    PlannedLmdb,
    common_classes,
    common_features,
)
from latent_domains.data.names import check_shares, mixture_counts, own_name, shares_text

PROGRAM = "tools.join_lmdbs"


def join(
    inputs: Sequence[Path],
    out: Path,
    *,
    shares: Sequence[int] = (),
    seed: int = 0,
    force: bool = False,
) -> None:
    """Make the LMDB ``out`` of the records of ``inputs``, in an order drawn by ``seed``.

    With ``shares`` (percentages) it is the largest mixture with these shares; ``seed`` draws its records. Without, it
    has all records. ``domains.txt`` names the LMDB of each record.

    An equal mixture is not written again, since two calls may need it at the same time. Refuses inputs whose images,
    classes or backbones differ, or which have the same name. ``force`` replaces another mixture, and nothing else.
    """
    if shares:
        check_shares(shares, len(inputs))
    check_apart([*inputs, out], "a folder of its own for each LMDB and for OUT")
    names = list(map(own_name, inputs))
    if len(set(names)) != len(names):
        raise ProgramError(f"two of the LMDBs have the same name: found {', '.join(names)}, expected each name once")
    check_named(out)
    if out.exists() and read_note(out).recipe.get("program") != PROGRAM:  # where OUT was forgotten it is the last input
        raise ProgramError(f"{out} exists already and {PROGRAM} did not make it: choose another name or remove it")
    counts = _count_alike(inputs)
    origin = {
        "program": PROGRAM,
        "inputs": ", ".join(f"{name} ({count})" for name, count in zip(names, counts, strict=True)),
        **({"shares": shares_text(shares)} if shares else {}),
        "seed": seed,
        **common_features(inputs),
    }
    places = _draw_records(counts, mixture_counts(counts, shares), seed)
    domains = [names[i] for i, _ in places]
    part = PlannedLmdb(
        out,
        origin,
        lambda: NewRecords(len(places), _records(inputs, places)),
        common_classes(inputs),
        domains,
        lmdb_io.material(*inputs),
    )
    make_missing([part], force=force)


def read_domains(mixture: Path) -> list[str] | None:
    """Return the name of the LMDB of each record of a mixture; None without ``domains.txt``."""
    if not (mixture / DOMAINS).is_file():
        return None
    found, records = read_text(mixture / DOMAINS).splitlines(), lmdb_io.count(mixture)
    if len(found) != records:
        raise ProgramError(f"{mixture / DOMAINS}: {len(found)} lines, expected {records}, one for each record")
    return found


def read_known_domains(mixture: Path, reason: str) -> list[str]:
    """Return the same. Refuses a mixture without ``domains.txt``, with the ``reason`` why it is needed."""
    if (found := read_domains(mixture)) is None:
        raise ProgramError(
            f"{mixture}: no {DOMAINS} says which domain each image is from, as python -m tools.join_lmdbs writes it; "
            f"{reason}"
        )
    return found


def _count_alike(inputs: Sequence[Path]) -> list[int]:
    """Return the number of records of each input. Refuses images that differ in shape or storage."""
    found = {path: lmdb_io.describe(path) for path in tqdm(inputs, desc="check", unit="LMDB")}
    kinds = {path: f"{by(one.shape)}, {one.storage}" for path, one in found.items()}
    first = inputs[0]
    for path, description in found.items():
        if not description.same_size:
            raise ProgramError(f"{path}: images of several sizes or storage formats, expected the same for all")
        if kinds[path] != kinds[first]:
            raise ProgramError(
                f"{path}: images are {kinds[path]}, but those of {first} are {kinds[first]}; expected the same"
            )
    return [description.records for description in found.values()]


def _draw_records(counts: Sequence[int], taken: Sequence[int], seed: int) -> list[tuple[int, int]]:
    """Draw ``taken`` of the ``counts`` records of each input. Return the input and the number in it of each record."""
    places = []
    for i, (count, number) in enumerate(zip(counts, taken, strict=True)):
        chosen = np.sort(np.random.default_rng([seed, i]).permutation(count)[:number])
        places += [(i, int(record)) for record in chosen]
    return [places[place] for place in np.random.default_rng(seed).permutation(len(places))]


def _records(inputs: Sequence[Path], places: Sequence[tuple[int, int]]) -> Iterator[tuple[str, bytes]]:
    """Yield name and value of the records at these places. Only the inputs' keys are kept in memory."""
    with ExitStack() as stack:
        transactions = [stack.enter_context(lmdb_io.open_lmdb(path))[1] for path in inputs]
        keys = [list(lmdb_io.keys(one)) for one in transactions]
        for i, record in places:
            key = keys[i][record]
            yield lmdb_io.record_name(key), bytes(transactions[i].get(key))
