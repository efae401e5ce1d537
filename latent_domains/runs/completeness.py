"""Whether a run had the dataset as it was published: a smoke test on a sample must not be taken for a result."""

from latent_domains.data.lmdb_io import count
from latent_domains.experiment.batches import published_counts
from latent_domains.runs.run_folder import RunFolder


def incompleteness(folder: RunFolder) -> str | None:
    """What a run's LMDBs hold where it is not the published number of images, in words; None if they all do."""
    experiment = folder.experiment
    published = {folder.train_lmdbs[part]: images for part, images in published_counts(experiment).items()}
    published |= {lmdb: experiment.data.test_count(target) for target, lmdb in folder.test_lmdbs.items()}
    found = {lmdb: count(lmdb) for lmdb in published}
    different = [
        f"{lmdb.name} has {found[lmdb]} images, published {images}"
        for lmdb, images in published.items()
        if found[lmdb] != images
    ]
    return "; ".join(different) or None
