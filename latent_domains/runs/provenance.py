"""What a run was trained on: the hashes of its LMDBs, of its net, and of the weights that it began from."""

from pathlib import Path

from latent_domains.common.files import sha256
from latent_domains.common.program import ProgramError
from latent_domains.data.lmdb_folder import is_lmdb
from latent_domains.data.lmdb_io import contents
from latent_domains.runs.run_folder import RunFolder

AGAIN = "write the run folder again (python -m tools.write_run --force)"


def lmdb_contents(folder: RunFolder) -> dict[str, str]:
    """Return the hash of each LMDB that a run reads, by path in the data folder (domain labels: in the run folder)."""
    return {name: contents(path) for name, path in _lmdbs(folder).items() if is_lmdb(path)}


def _lmdbs(folder: RunFolder) -> dict[str, Path]:
    """Return these LMDBs, with those of the sources' test images, on which latent domains are judged, if they exist."""
    experiment, data = folder.experiment, folder.data_folder
    held_out = (
        [data / experiment.data.test_lmdb(one) for one in experiment.sources] if experiment.method.has_branch else []
    )
    images = [*folder.train_lmdbs.values(), *folder.test_lmdbs.values(), *held_out]
    places = {data: images, folder.path: folder.domain_labels.values()}
    return {str(path.relative_to(place)): path for place, paths in places.items() for path in paths}


def file_contents(folder: RunFolder) -> dict[str, str]:
    """Return the hashes of training net, initial weights and record numbers, by path in the run folder."""
    files = (folder.net("train"), folder.initial, *folder.record_numbers.values())
    return {str(file.relative_to(folder.path)): sha256(file) for file in files}


def check_same_images(folder: RunFolder, remedy: str = f"build those again, or {AGAIN}") -> None:
    """Raise ProgramError, with the ``remedy``, if the records in an LMDB of a trained run have changed since."""
    training = folder.read_training()
    known = (training and training.lmdbs) or {}
    for name, path in _lmdbs(folder).items():
        if name in known and is_lmdb(path) and (found := contents(path)) != known[name]:
            raise ProgramError(
                f"{path}: other records than {folder.path} was trained on: their sha256 was {known[name]}, is {found}; "
                f"{remedy}"
            )


def check_same_weights(folder: RunFolder, weights: Path, remedy: str) -> None:
    """Raise ProgramError, with the ``remedy``, if a trained run began from other weights than these."""
    training = folder.read_training()
    if training is None:
        return
    began, found = training.weights, sha256(weights)
    if began is not None and began.sha256 is None:  # noted before there were hashes
        return
    if began is None or began.sha256 != found:
        what = f"{began.file} (sha256 {began.sha256})" if began else "random weights"
        raise ProgramError(f"{folder.path} began from {what}, expected {weights} (sha256 {found}): {remedy}")
