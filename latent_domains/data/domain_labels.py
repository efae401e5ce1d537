"""Domain labels that are known for a share of the source samples: which samples, and the LMDB of these labels."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from caffe.proto.caffe_pb2 import Datum
from numpy.typing import NDArray

from latent_domains.data import lmdb_io
from latent_domains.data.lmdb_note import Note

UNKNOWN = -1


def known_of(n: int, share: float) -> int:
    """How many of ``n`` samples are known: ``share`` of them, a half rounded up."""
    return int(np.floor(share * n + 0.5))


def write_domain_labels(path: Path, labels: Sequence[int], images: Path | None = None) -> None:
    """Write domain labels as an LMDB whose record i belongs to record i of the LMDB ``images``, for its note.

    Each Datum is 1×1×1 with the label (a domain's index, or -1 for unknown) as its only ``float_data`` value and again
    as its ``label``, so a Data layer with one top gives N×1×1×1 floats.

    Raises ProgramError if ``path`` exists.
    """
    with lmdb_io.create(path) as (writer, _):
        writer.note = Note(made_of=lmdb_io.material(images).read() if images else None)
        for label in labels:
            datum = Datum(channels=1, height=1, width=1, float_data=[float(label)], label=int(label))
            writer.put("domain", datum)


def choose_known(counts: Sequence[int], share: float, seed: int) -> list[NDArray[np.bool_]]:
    """Choose which samples keep their domain label: exactly ``share`` of each domain, drawn by ``seed``.

    ``counts`` holds the number of records of each domain; the result one mask per domain (true: known). In a domain of
    n records floor(share·n + 1/2) are known. A larger share with the same seed keeps everyone a smaller one kept,
    and a domain's choice does not depend on the other domains' sizes.
    """
    masks = []
    for domain, n in enumerate(counts):
        mask = np.zeros(n, bool)
        mask[np.random.default_rng([seed, domain]).permutation(n)[: known_of(n, share)]] = True
        masks.append(mask)
    return masks
