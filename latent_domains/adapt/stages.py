"""Carry out an adaptation, from LMDBs to results. Existing results are kept."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from latent_domains.adapt.adaptation import Adaptation, Notes, experiment_of, notes_on
from latent_domains.adapt.choice import Choice, accuracies, can_choose, choose, train_held_out
from latent_domains.adapt.data import build_lmdbs, check_different, extract_features, read_stored, with_counted_domains
from latent_domains.adapt.results import (
    baseline_files,
    compared_records,
    result_lines,
    saved,
    write_baselines,
    write_domain_model,
    write_domains,
    write_readme,
)
from latent_domains.adapt.training import open_run, train, weights_to_begin
from latent_domains.common.artefact import Artefact, make_missing
from latent_domains.convert.backbone_and_head import check_onnx, is_head
from latent_domains.convert.fold.export import export, run_source
from latent_domains.convert.onnx.export import export_onnx
from latent_domains.convert.options import ConverterOptions
from latent_domains.experiment.experiment import Experiment
from latent_domains.models.classifier import predict, write_predictions
from latent_domains.models.model import model_files
from latent_domains.report.build import build
from latent_domains.runs.devices import mode_of, requested_mode
from latent_domains.runs.predict import open_classifier
from latent_domains.runs.run_folder import RunFolder


def carry_out(adaptation: Adaptation, experiment: Experiment, weights: Path | None, notes: Notes) -> list[str]:
    """Do all that is missing of an adaptation; return its result and those to compare with, in words.

    ``experiment`` is that on all its images, ``weights`` the file that training begins from. Prints what it does.
    """
    found, counts, before = adaptation.images.counts, build_lmdbs(adaptation), experiment.num_domains
    check_different(adaptation, experiment.batch_inputs)
    adaptation = with_counted_domains(adaptation)
    experiment = experiment_of(adaptation, counts)
    if weights and experiment.num_domains != before:
        weights = weights_to_begin(adaptation, experiment, begins=True)
    if counts != found:
        notes.say(
            f"{name}: {number} of {found[name]} images are used: the others could not be read"
            for name, number in counts.items()
            if number != found[name]
        )
        notes.say(notes_on(read_stored(adaptation), experiment))
    print(f"{experiment.title} on {experiment.data.learner}, {experiment.recipe.iterations} iterations", flush=True)
    extract_features(adaptation, experiment)
    folder = open_run(adaptation, experiment)
    train(adaptation, folder, weights)
    make_missing(_results(adaptation, folder))
    return result_lines(adaptation.paths, folder)


@dataclass(frozen=True)
class RunResult(Artefact):
    """A result of a finished training, made again if it is older than the run's record."""

    record_file: Path
    paths: Sequence[Path]
    made_by: Callable[[], object]

    def is_there(self, *, force: bool = False) -> bool:
        trained = self.record_file.stat().st_mtime
        return super().is_there() and all(path.stat().st_mtime >= trained for path in self.paths)

    def make(self, *, force: bool = False) -> None:
        self.made_by()


def _results(adaptation: Adaptation, folder: RunFolder) -> Iterator[RunResult]:
    """Yield all results, in the order in which they are made."""
    paths, images, result = adaptation.paths, adaptation.images, partial(RunResult, folder.record_file)

    def chosen() -> None:
        if folder.experiment.data.features:
            how = {"threads": adaptation.threads, "solver_mode": adaptation.solver_mode}
            runs = train_held_out(folder, paths.held_out, **how)
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
        classifier = open_classifier(paths.model, requested_mode(adaptation.solver_mode) or mode_of(folder))
        how = {"reading": adaptation.reading, "jobs": adaptation.jobs, "desc": paths.predictions.name}
        found = predict(classifier, images.target_entries, **how)
        labelled = any(target.labelled for target in images.targets)
        write_predictions(paths.predictions, found, images.classes, labelled=labelled)

    if can_choose(folder):
        yield result([paths.choice, paths.chosen], chosen)
    yield result(baseline_files(paths, folder), lambda: write_baselines(paths, folder))
    yield result(paths.model_files, model)
    yield result([paths.predictions], predictions)
    if folder.experiment.method.finds_domains:
        yield result([paths.domains], lambda: write_domains(folder, paths.domains))
        if not folder.experiment.method.has_branch:
            yield result([paths.domain_model], lambda: write_domain_model(adaptation, folder))
    yield result(
        [paths.report],
        lambda: build([folder.path, *compared_records(paths, folder)], paths.report, model=saved(paths, folder)),
    )
    yield result([paths.readme], lambda: write_readme(adaptation, folder))
