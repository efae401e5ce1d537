"""Statistics of pictures that were made before, whatever program made them: found by the pictures' contents."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

import lmdb
import numpy as np
from numpy.typing import NDArray

from latent_domains.common.files import Digest
from latent_domains.common.in_threads import in_threads
from latent_domains.common.program import ROOT
from latent_domains.data.image_datum import file_contents
from latent_domains.data.image_list import Entry
from latent_domains.data.pixels import decided_by
from latent_domains.data.preprocessing import Reading

FOLDER = ROOT / "data" / "statistics"
"""It can be deleted: then statistics are made again."""

MOST = 2**34
"""Bytes of all rows of one kind; beyond, rows are not kept."""

Row = NDArray[np.float32]


class Kept:
    """Rows of statistics that were ``made`` in one way. Where no file can be written, none are kept."""

    def __init__(self, made: Mapping[str, str | int]) -> None:
        self._path = FOLDER / str(Digest([("", json.dumps(made, sort_keys=True))]))[:16]

    def keys(self, entries: Sequence[Entry], reading: Reading, jobs: int) -> list[bytes]:
        """The key of each picture: a hash of its contents, and of the options of ``reading`` on which it depends."""

        def key(entry: Entry) -> bytes:
            try:
                data = file_contents(entry.file)
            except OSError:
                return b""
            return str(Digest([("", data), ("", json.dumps(decided_by(data, reading)))])).encode()

        return list(in_threads(key, entries, jobs))

    def rows(self, keys: Iterable[bytes]) -> dict[bytes, Row]:
        """The rows of those keys that were made before."""
        with self._transaction(write=False) as found:
            values = ((key, found.get(key)) for key in keys if key) if found else ()
            return {key: np.frombuffer(value, np.float32) for key, value in values if value}

    def keep(self, rows: Mapping[bytes, Row]) -> None:
        """Keep rows by their keys."""
        if not rows:
            return
        with self._transaction(write=True) as made:
            for key, row in rows.items() if made else ():
                made.put(key, row.astype(np.float32).tobytes())

    @contextmanager
    def _transaction(self, *, write: bool) -> Iterator[lmdb.Transaction | None]:
        try:
            self._path.mkdir(parents=True, exist_ok=True)
            env = lmdb.open(str(self._path), map_size=MOST, metasync=False)
        except (OSError, lmdb.Error):
            yield None
            return
        try:
            with env.begin(write=write) as transaction:
                yield transaction
        except lmdb.Error:  # no room, or no right to write
            if not write:
                raise
        finally:
            env.close()
