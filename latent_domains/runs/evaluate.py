"""Make a run's record: its accuracy at the last iteration, and how it was trained."""

import caffe
import numpy as np

from latent_domains.common.caffe_process import curves
from latent_domains.common.gpus import gpu_names
from latent_domains.common.program import ProgramError
from latent_domains.common.versions import commit, hardware, versions
from latent_domains.runs.devices import mode_of, requested_mode
from latent_domains.runs.domain_labels import assigned_domains
from latent_domains.runs.outputs import class_names, confusion_counts, source_usage, target_usage, usage_history
from latent_domains.runs.preflight import check_data, check_mode, check_nets, check_training_images, incompleteness
from latent_domains.runs.record import DomainUsage, OnTarget, Record, domain_usage, note_on_domain_labels
from latent_domains.runs.run_folder import RunFolder, Snapshot
from latent_domains.runs.run_state import now

DIVERGED = "the training diverged; begin it again with a lower learning rate (--base-lr; --force replaces the run)"
"""Explains a value that is not finite: it never becomes finite again."""


def evaluate(folder: RunFolder, *, solver_mode: str | None = None) -> Record:
    """Evaluate the last iteration of ``folder`` and return its record.

    ``solver_mode`` is GPU or CPU; None means that of the environment, if any, or the run's. Refuses a run that diverged
    or has not reached its last iteration.
    """
    snapshot = folder.final_snapshot()
    check_nets(folder)
    check_training_images(folder)
    check_data(folder)  # Caffe would abort
    experiment = folder.experiment
    mode = requested_mode(solver_mode) or mode_of(folder)
    check_mode(folder, mode)
    if mode == "GPU":
        caffe.set_mode_gpu()
    _check_finite(folder, snapshot)
    confusion = {target: confusion_counts(folder, snapshot, target) for target in folder.test_nets}
    images = sum(int(counts.sum()) for counts in confusion.values())
    correct = sum(int(counts.trace()) for counts in confusion.values())
    assigned, log = assigned_domains(folder), curves(folder.log_text().splitlines())
    return Record(
        experiment=experiment.to_json(),
        iteration=snapshot.iteration,
        accuracy=correct / images if images else None,  # the labels of some targets are not known
        test_images=images,
        targets={target: OnTarget.of(counts) for target, counts in confusion.items()},
        classes=class_names(folder),
        incomplete_data=incompleteness(folder),
        domain_usage=domain_usage(assigned) if assigned else source_usage(folder, snapshot),
        target_domain_usage=target_usage(folder, snapshot),
        domain_usage_history=usage_history(folder),
        last_values={name: values[max(values)] for (phase, name), values in log.items() if phase == "train" and values},
        training=folder.read_training(),
        evaluated=now(),
        commit=commit(),
        versions=versions(),
        hardware=hardware(mode, gpu_names()[0] if mode == "GPU" else None),
    )


def _check_finite(folder: RunFolder, snapshot: Snapshot) -> None:
    """Raise ProgramError naming file and layer if a snapshot has a number for the deploy net that is not finite."""
    for name, blobs in folder.load_net("deploy", caffe.TEST, snapshot.model).params.items():
        if not all(np.isfinite(blob.data).all() for blob in blobs):
            raise ProgramError(f"{snapshot.model}: layer {name} holds values that are not finite: {DIVERGED}")


def summary(folder: RunFolder, record: Record) -> str:
    """Return the record's accuracy in words; if there are several targets, with that of each."""
    if record.accuracy is None:
        return f"no accuracy on {folder.experiment.target}, whose labels are not known"
    text = f"{100 * record.accuracy:.2f} % on {'+'.join(record.targets)}"
    if len(record.targets) > 1:
        each = ", ".join(f"{target} {100 * found.accuracy:.2f} %" for target, found in record.targets.items())
        text += f" ({each})"
    return text


def domains_summary(folder: RunFolder, record: Record) -> list[str]:
    """Describe how latent domains were used: a line for the sources', and one for the targets', if any."""
    lines = []
    if usage := record.domain_usage:
        kind = "held-out source images" if usage.held_out else "training images of the sources"
        lines.append(_usage_summary(usage, kind, note_on_domain_labels(folder.experiment.method, usage)))
    if usage := record.target_domain_usage:
        lines.append(_usage_summary(usage, "images of the targets"))
    return lines


def _usage_summary(usage: DomainUsage, kind: str, told: str = "") -> str:
    said = [f"largest share {100 * max(usage.share):.1f} %"]
    if usage.has_true_domains:
        least = max(map(sum, usage.counts)) / usage.images
        said.append(
            f"purity {usage.purity:.3f} (of one domain: {least:.3f}), NMI {usage.nmi:.3f} with the true domains"
        )
    if usage.nmi_classes is not None:
        said.append(f"NMI {usage.nmi_classes:.3f} with the classes")
    said += [told] if told else []
    return f"latent domains of {usage.images:,} {kind}: {'; '.join(said)}"
