"""Pictures a second that LMDBs give: from the disk, stored and shuffled, from memory, and through a Data layer.

From the disk is by the clock; the others, on one thread, are by the time of the processor.

python -m tests.scale.rates data/pacs/photo data/pacs_jpg/photo
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

os.environ.setdefault("GLOG_minloglevel", "2")

import caffe

from latent_domains.common.arguments import positive
from latent_domains.common.markdown import table
from latent_domains.data.lmdb_io import count_filled, describe, keys, open_lmdb

BATCH = 48


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.scale.rates", description=__doc__.partition("\n")[0])
    parser.add_argument("lmdbs", type=Path, nargs="+", metavar="LMDB", help="of pictures of at least 224x224")
    parser.add_argument("--rounds", type=positive, default=3, help="of which the best counts (default: %(default)s)")
    options = parser.parse_args()
    rows = []
    for lmdb in options.lmdbs:
        size, pictures = (lmdb / "data.mdb").stat().st_size, count_filled(lmdb)
        cold, shuffled, warm, layer = [], [], [], []
        for seed in range(options.rounds):
            forget(lmdb / "data.mdb")
            cold.append(records(lmdb, time.perf_counter))
            with open_lmdb(lmdb) as (_, transaction):
                order = list(keys(transaction))
            Random(seed).shuffle(order)
            forget(lmdb / "data.mdb")
            shuffled.append(records(lmdb, time.perf_counter, order))
            warm.append(records(lmdb, time.process_time))
            layer.append(data_layer(lmdb, pictures // BATCH))
        kind = "encoded" if describe(lmdb).encoded else "raw"
        rates = [f"{max(found):,.0f}" for found in (cold, shuffled, warm, layer)]
        megabytes = f"{max(cold) * size / pictures / 1e6:,.0f}"
        rows.append([kind, f"{pictures:,}", f"{size / pictures / 1000:.0f}", *rates, megabytes])
    columns = ["from the disk", "shuffled", "from memory", "by a Data layer"]
    print(table(["records", "pictures", "kB each", *columns, "disk, MB/s"], rows))


def forget(file: Path) -> None:
    """Have the system drop what it holds of a file in memory."""
    descriptor = os.open(file, os.O_RDONLY)
    try:
        os.fsync(descriptor)
        os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
    finally:
        os.close(descriptor)


def records(lmdb: Path, clock: Callable[[], float], order: Sequence[bytes] = ()) -> float:
    """Records a second, each copied as it stands: by the keys of ``order``, or all as they are stored."""
    with open_lmdb(lmdb) as (_, transaction):
        begun = clock()
        values = map(transaction.get, order) if order else transaction.cursor().iternext(keys=False)
        number = sum(1 for value in values if bytes(value))
        return number / (clock() - begun)


def data_layer(lmdb: Path, batches: int) -> float:
    """Pictures a second of a processor that a Data layer crops, mirrors and, if need be, decodes, on its one thread."""
    with tempfile.NamedTemporaryFile("w", suffix=".prototxt") as file:
        file.write(
            'layer { name: "data" type: "Data" top: "data" top: "label" '
            f'data_param {{ source: "{lmdb.resolve()}" batch_size: {BATCH} backend: LMDB }} '
            "transform_param { crop_size: 224 mirror: true mean_value: 104 mean_value: 117 mean_value: 123 } }"
        )
        file.flush()
        net = caffe.Net(file.name, caffe.TRAIN)
    begun = time.process_time()
    for _ in range(batches):
        net.forward()
    return batches * BATCH / (time.process_time() - begun)


if __name__ == "__main__":
    main()
