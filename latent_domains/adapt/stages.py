"""The stages of a task, one after the other. What is there already is left alone."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from latent_domains.adapt.choice import Choice, accuracies, can_choose, choose
from latent_domains.adapt.comparisons import baseline_files, compared_records, saved, write_baselines
from latent_domains.adapt.decision import Decision
from latent_domains.adapt.duration import duration_text, estimate_seconds, measure_iteration
from latent_domains.adapt.held_out import train_held_out
from latent_domains.adapt.results import write_domain_model, write_domains, write_readme
from latent_domains.adapt.settings import OTHERWISE
from latent_domains.adapt.task import Task
from latent_domains.backbones.pictures import describe_pictures
from latent_domains.common.files import json_text, write_text
from latent_domains.common.program import ProgramError
from latent_domains.convert.backbone_and_head import check_onnx, is_head
from latent_domains.convert.fold.export import export, run_source
from latent_domains.convert.onnx.export import export_onnx
from latent_domains.convert.options import ConverterOptions
from latent_domains.data.domain_images import TaskImages
from latent_domains.experiment.batches import batch_sizes
from latent_domains.experiment.datasets import DATASETS, on_lite0
from latent_domains.experiment.experiment import Experiment, make_experiment
from latent_domains.experiment.methods import LATENT, METHODS
from latent_domains.experiment.networks import NETWORKS
from latent_domains.experiment.recipe import Recipe
from latent_domains.models.classifier import predict, write_predictions
from latent_domains.models.model import model_files
from latent_domains.report.build import build
from latent_domains.runs.devices import mode_of, requested_mode
from latent_domains.runs.lock import check_unlocked
from latent_domains.runs.predict import open_classifier
from latent_domains.runs.preflight import preflight
from latent_domains.runs.provenance import check_same_images
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.write import check_holds, write_run
from latent_domains.training.train import loaded_from, train_all

FEWEST_ROWS = 8
"""The fewest images of each domain in a batch, for its statistics. A domain that has fewer repeats them."""

DEFAULT_K = 2
"""Latent domains of a single source, which counts as an undivided mixture."""


def experiment_of(task: Task, counts: Mapping[str, int]) -> Experiment:
    """Make the experiment on ``counts`` images of each domain.

    A batch has the size of the learner's recipe, or is smaller if domains are small. A training has four tests and four
    snapshots or more. There are fewer tests if the target is large: between two tests, training reads at least as many
    images as a test. Raises ProgramError naming an option that does not fit.
    """
    images, chosen, recipe = task.images, task.chosen, task.learner.recipe
    sources, targets = (tuple(each.name for each in group) for group in (images.sources, images.targets))
    seen = (*sources, *targets) if METHODS[chosen["method"]].sees_target else sources
    split, sizes = chosen.get("batch_split"), [counts[domain] for domain in seen]
    most = sum(sizes) // len(seen) if split == "by_size" else min(sizes)
    rows = max(FEWEST_ROWS, min(_rows(recipe, len(sources), len(seen)), most))
    iterations = chosen["iterations"] or recipe.iterations
    as_long_as_a_test = -(-sum(counts[target] for target in targets) // (rows * len(seen)))
    recipe = replace(
        recipe,
        iterations=iterations,
        batch_size=_batch_size(recipe.batch_split, rows, len(sources), len(seen)),
        test_interval=min(iterations, max(min(recipe.test_interval, max(1, iterations // 4)), as_long_as_a_test)),
        snapshot_interval=min(recipe.snapshot_interval, max(1, iterations // 4)),
        data_order="shuffled",  # such sets are small, and epochs many
        solver_mode="CPU" if task.learner.on_features else "GPU",
    )
    data = describe_pictures(task.paths.name, images, task.pictures, counts, recipe, task.command)
    if task.learner.on_features:
        data = replace(on_lite0(data, recipe, task.command), usage_images=data.usage_images)
    k = chosen["k"]
    if chosen["method"] in LATENT and k is None and len(images.sources) == 1 and not chosen.get("domains"):
        k = DEFAULT_K
    size = chosen.get("batch_size")
    if split and not size:
        size = _batch_size(split, rows, len(sources), len(seen))
    experiment = make_experiment(data, **{**chosen, "k": k, "batch_size": size})
    if task.counted:
        experiment = replace(experiment, method=replace(experiment.method, counted=True))
    if data.features and experiment.method.has_target_branch and experiment.method.branch_input == "early":
        raise ProgramError(
            f"branch_input: got 'early' with k_target {experiment.k_target}, expected final: the model tells latent "
            "targets apart, and no stock layer makes statistics of early blocks"
        )
    batch_sizes(experiment, counts)  # of a batch that is too small
    return experiment


def _rows(recipe: Recipe, sources: int, domains: int) -> int:
    """Return the images of each of ``domains`` domains in a batch, in the mean; ``sources`` of them are sources."""
    match recipe.batch_split:
        case "per_domain":
            return recipe.batch_size
        case "per_group":
            return recipe.batch_size * (1 + domains - sources) // domains
        case _:
            return recipe.batch_size // domains


def _batch_size(batch_split: str, rows: int, sources: int, domains: int) -> int:
    """Return the size, as ``batch_split`` counts, of a batch of ``rows`` images for each of ``domains`` domains."""
    match batch_split:
        case "per_domain":
            return rows
        case "per_group":
            return max(FEWEST_ROWS, rows * domains // (1 + domains - sources))
        case _:
            return rows * domains


def batch_notes(images: TaskImages, experiment: Experiment) -> Iterator[str]:
    """Say if a small domain makes batches smaller than the network's recipe, unless the size was chosen."""
    sizes = {domain.name: len(domain.entries) for domain in images.domains if domain.name in experiment.batch_inputs}
    ours, smallest = experiment.task.data.recipe, min(sizes, key=sizes.__getitem__)
    recipe = DATASETS[NETWORKS[experiment.net.network].recipe].recipe
    sources = len(experiment.task.source_inputs)
    rows, usual = _rows(ours, sources, len(sizes)), _rows(recipe, sources, len(sizes))
    size = _batch_size(experiment.recipe.batch_split, rows, sources, len(sizes))
    if rows < usual and experiment.recipe.batch_size == size:
        batch = sum(batch_sizes(experiment, sizes).values())
        yield (
            f"{smallest} has {sizes[smallest]} images: so a batch has {batch} images, not {usual * len(sizes)} as the "
            "network's recipe says (--batch-size)"
        )


def open_run(task: Task, experiment: Experiment, decision: Decision, solver_mode: str | None) -> RunFolder:
    """Write the run folder of the experiment or, if training goes on, open it.

    Raises ProgramError if it holds another experiment, or if ``dataset.json`` is a folder.
    """
    paths = task.paths
    if decision.begins or not paths.dataset.is_file():
        write_text(paths.dataset, json_text(experiment.data.to_json()))
    if decision.begins:
        return write_run(experiment, paths.run, data=paths.data, solver_mode=solver_mode)
    folder = RunFolder.load(paths.run)
    if folder.experiment != experiment:
        check_unlocked(paths.run)
    check_holds(folder, experiment, paths.data, OTHERWISE)
    return folder


def train(
    folder: RunFolder, decision: Decision, weights: Path | None, threads: int | None, solver_mode: str | None
) -> None:
    """Train and evaluate; on a CPU, first say how long it takes."""
    snapshot, mode = folder.latest_snapshot(), requested_mode(solver_mode) or mode_of(folder)
    if snapshot or decision is Decision.FINISHED:
        check_same_images(folder, OTHERWISE)  # preflight would advise what write_run's users can do
    left = folder.experiment.recipe.iterations - (snapshot.iteration if snapshot else 0)
    if left and mode == "CPU" and decision is not Decision.FINISHED:
        check_unlocked(folder.path)
        preflight(folder, mode)  # its errors are clearer than those of caffe time
        if weights and not snapshot:
            loaded_from(folder, weights)
        threads = _say_duration(folder, left, threads)
    train_all([folder], threads=threads, resume=True, solver_mode=solver_mode, weights=weights)


def _say_duration(folder: RunFolder, iterations: int, threads: int | None) -> int:
    """Print how long ``iterations`` take; return the number of threads to train with."""
    batch = sum(folder.batch_rows().values())
    print("measuring how long an iteration takes on this processor …", flush=True)
    threads, seconds = measure_iteration(folder, threads)
    whole = duration_text(estimate_seconds(folder, iterations, seconds))
    tests = ", with tests" if folder.test_nets else ""
    print(
        f"{seconds:.2g} s: about {whole} for {iterations} iterations of {batch} images{tests}. Ctrl-C stops with a "
        "snapshot, the same command goes on from it.",
        flush=True,
    )
    return threads


@dataclass(frozen=True)
class Stage:
    """Files, and what makes them."""

    files: Sequence[Path]
    make: Callable[[], object]

    def is_done(self, since: float) -> bool:
        """Say whether all files are there and not older than a time."""
        return all(file.exists() and file.stat().st_mtime >= since for file in self.files)


def finish(task: Task, folder: RunFolder, *, jobs: int, threads: int | None, solver_mode: str | None) -> None:
    """Make what is missing, or older than the record."""
    trained = folder.record.stat().st_mtime
    for stage in _stages(task, folder, jobs, threads, solver_mode):
        if not stage.is_done(trained):
            stage.make()


def _stages(task: Task, folder: RunFolder, jobs: int, threads: int | None, solver_mode: str | None) -> Iterator[Stage]:
    """The stages after training, in their order."""
    paths, images = task.paths, task.images

    def chosen() -> None:
        if folder.experiment.data.features:
            runs = train_held_out(folder, paths.held_out, threads=threads, solver_mode=solver_mode)
            held_out = accuracies(runs)
        else:  # of the features alone: to fine-tune a net for each source takes too long
            alone = paths.features.choice
            held_out = Choice.read(alone).held_out if alone.exists() else {}
        choose(folder, held_out, paths.choice, paths.chosen)

    def model() -> None:
        options = ConverterOptions(force=True)
        source = run_source(folder, paths.chosen if can_choose(folder) else None)
        export(source, paths.model, options)
        check = partial(check_onnx, folder, source.weights) if is_head(folder) else None
        made = model_files(paths.model)
        export_onnx(*made, paths.onnx, options, transform=source.transform, check=check)

    def predictions() -> None:
        classifier = open_classifier(paths.model, requested_mode(solver_mode) or mode_of(folder))
        found = predict(classifier, images.target_entries, reading=task.reading, jobs=jobs, desc=paths.predictions.name)
        labelled = any(target.labelled for target in images.targets)
        write_predictions(paths.predictions, found, images.classes, labelled=labelled)

    if can_choose(folder):
        yield Stage([paths.choice, paths.chosen], chosen)
    yield Stage(baseline_files(paths, folder), lambda: write_baselines(paths, folder))
    yield Stage(paths.model_files, model)
    yield Stage([paths.predictions], predictions)
    if folder.experiment.method.finds_domains:
        yield Stage([paths.domains], lambda: write_domains(folder, paths.domains))
        if not folder.experiment.method.has_branch:
            yield Stage([paths.domain_model], lambda: write_domain_model(task, folder, jobs=jobs))
    yield Stage(
        [paths.report],
        lambda: build([folder.path, *compared_records(paths, folder)], paths.report, model=saved(paths, folder)),
    )
    yield Stage([paths.readme], lambda: write_readme(task, folder))
