"""Finds the domains of the sources as tools.discover does, where their number was not chosen."""

from dataclasses import replace

from latent_domains.adapt.decision import Decision
from latent_domains.adapt.learner import with_defaults
from latent_domains.adapt.task import Task, plan_style
from latent_domains.data.lmdb_plans import build_missing
from latent_domains.discovery.discover import discover
from latent_domains.discovery.page import write_page
from latent_domains.domains.statistics import read_statistics
from latent_domains.networks.lite0 import LITE0
from latent_domains.runs.run_folder import RunFolder


def with_counted_domains(task: Task, decision: Decision, *, jobs: int, skip_unreadable: bool) -> Task:
    """The task with as many domains as are counted in its sources; of a single one the method is DIAL.

    A training that goes on has those that it began with, a fine-tuned backbone those of its features alone. Prints what
    was found, and writes the page that shows it.
    """
    if not task.counts_domains:
        return task
    if not decision.begins or task.learner.features_alone:
        counted = task.paths if not decision.begins else task.paths.features
        method = RunFolder.load(counted.run).experiment.method
        if method.name == "style_w" and not method.counted:
            return task  # begun when the number of sources was the usual one
        k = method.source_domains(1)
    else:
        parts = plan_style(task, task.paths.style, jobs=jobs, skip_unreadable=skip_unreadable)
        build_missing(parts, force=True)
        sources = replace(task.images, targets=())
        statistics = read_statistics(sources, [part.path for part in parts])
        found = discover(sources, task.reading, statistics, None, task.chosen["seed"])
        print(*found.summary(), sep="\n", flush=True)
        for note in found.notes:
            print(f"note: {note}", flush=True)
        backbone = f"{LITE0.title}, {', '.join(LITE0.backbone.middle)}"
        write_page(found, task.paths.found, backbone=backbone, command=task.command)
        k = found.found.k
    if k == 1:
        print("note: the sources are one domain, so the method is DIAL (--k asks for several)", flush=True)
        latent_targets = (task.chosen["k_target"] or 1) > 1  # which have a branch of their own
        single = {"method": "mda", "k": 1} if latent_targets else {"method": "dial", "k": None, "k_target": None}
        return replace(task, chosen=with_defaults(task.learner, {**task.chosen, **single}))
    return replace(task, chosen={**task.chosen, "k": k}, counted=True)
