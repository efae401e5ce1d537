"""What a run needs from outside its folder: LMDBs of images or features, and the weights its net begins from."""

from pathlib import Path

from latent_domains.data.lmdb_folder import is_lmdb
from latent_domains.data.sets.published import IMAGE_SETS
from latent_domains.experiment.datasets import DATASETS, STYLE_IS_OF
from latent_domains.experiment.experiment import Experiment
from latent_domains.experiment.networks import NETWORKS, at_hand
from latent_domains.tables.definition import Run, data_folder


def lmdbs(run: Run, data: Path) -> list[Path]:
    """List the LMDBs in the data folder that a run trains on and is tested on."""
    if isinstance(run, Experiment):
        train, test = map(run.data.train_lmdb, run.batch_inputs), run.task.tests.values()
    else:
        train, test = map(run.data.train_lmdb, (*run.sources, *run.targets)), run.targets
    names = [*train, *map(run.data.test_lmdb, test)]
    return [data / name for name in dict.fromkeys(names)]


def missing_lmdbs(run: Run, data: Path) -> list[Path]:
    """List the run's LMDBs that do not exist."""
    return [lmdb for lmdb in lmdbs(run, data) if not is_lmdb(lmdb)]


def lacks_style(run: Run, data: Path) -> bool:
    """Say whether a run lacks the statistics of style that it finds latent domains by."""
    return isinstance(run, Experiment) and not all(is_lmdb(data / lmdb) for lmdb in run.style_lmdbs)


def missing_images(run: Run, data: Path) -> bool:
    """Say whether LMDBs of the images are missing that features or statistics of style are extracted from."""
    domains = map(run.data.train_lmdb, run.data.domains)
    return not all(is_lmdb(data / run.data.images / Path(domain).name) for domain in domains)


def is_pretrained(run: Run) -> bool:
    """Whether the paper starts a run with ImageNet's weights: no baselines, and no nets that begin at random."""
    return isinstance(run, Experiment) and bool(NETWORKS[run.data.network].weights)


def weights(run: Run, data: Path) -> Path | None:
    """Return the file of ImageNet's weights that a run starts with, those that are at hand; None without any."""
    if not is_pretrained(run):
        return None
    folder = data / "weights"
    return folder / at_hand(run.data.network, folder).caffemodel(run.num_domains)


def why_missing(run: Run, data: Path, *, per_seed: bool = False) -> str:
    """Name what a run lacks here and the command that makes it; empty if nothing is missing."""
    folder = data_folder(data, run.seed, per_seed=per_seed)
    missing = missing_lmdbs(run, folder)
    if missing:
        whole = len(missing) == len(lmdbs(run, folder))
        images = DATASETS.get(run.data.images) if run.data.extracted else None
        if images and missing_images(run, data):
            return f"{title(images.name)} is not on this machine: {images.made_by}, then {run.data.made_by}"
        what = title(run.data.name) if whole else ", ".join(str(lmdb.relative_to(data)) for lmdb in missing)
        verb = "is" if whole or len(missing) == 1 else "are"
        of_seed = f" --seed N --out {data_folder(data, 'N', per_seed=True)} for each seed N" if per_seed else ""
        return f"{what} {verb} not on this machine: {run.data.made_by}{of_seed}"
    if lacks_style(run, folder):
        return why_no_style(run, data)
    begin = weights(run, data)
    if begin and not begin.is_file():
        chosen = at_hand(run.data.network, begin.parent)
        domains = f" --num-domains {run.num_domains}" if chosen.converted and run.num_domains else ""
        made_by = f"python -m tools.get_weights {chosen.name}{domains}"
        return f"{begin.relative_to(data)}, which the net begins from, is not on this machine: {made_by}"
    return ""


def why_no_style(run: Run, data: Path) -> str:
    """Name the command that makes the statistics of style, or say that there can be none."""
    images, command = run.data.images, run.data.style_made_by
    if not command:
        return f"there are no statistics of style of {title(images)}: {STYLE_IS_OF}"
    if images in DATASETS and missing_images(run, data):
        command = f"{DATASETS[images].made_by}, then {command}"
    return f"the statistics of style of {title(images)} are not on this machine: {command}"


def title(dataset: str) -> str:
    """Return a dataset's name for sentences."""
    images = DATASETS[dataset].images if dataset in DATASETS else dataset
    name = IMAGE_SETS[images].title if images in IMAGE_SETS else images
    return name if images == dataset else f"the set of {dataset.removeprefix(f'{images}_')} features of {name}"
