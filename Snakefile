"""The paper's tables, from data to report.

    snakemake tables/digits --cores 2          Table 1: LMDBs, nets and solvers, training, records, table, report
    snakemake --cores all                      all tables that the paper has numbers of, as far as their data is here
    snakemake tables/pacs --config images=DIR  values come after the targets

A table is a file of experiments/. Its target makes tables/NAME.md, tables/NAME.csv and tables/NAME/report.html.
Values of --config: seeds=0,1  iterations=N  images=DIR (the unpacked archive of an image set)  solver_mode=CPU|GPU
weights=none (begin at random, not with ImageNet's)  data=DIR  runs=DIR  experiments=DIR  threads=N (of one run).

A run is finished when its record is there, whatever happened to files' times or to this file: no rule below can make a
finished run's record again. One that was interrupted, killed or failed goes on from its last snapshot. One that another
snakemake trains is waited for, and a record that came meanwhile is not removed (update).
"""

import os
import re
import subprocess
import sys
from pathlib import Path

import psutil
from snakemake.cli import get_argument_parser
from snakemake.exceptions import WorkflowError

sys.path.insert(0, workflow.basedir)

from latent_domains.common.program import ProgramError, say_in_a_line

sys.excepthook = say_in_a_line  # of what Snakemake lets through: Ctrl-C while this is read, or twice

from latent_domains.common.files import write_text
from latent_domains.tables.definition import BaselineRun
from latent_domains.tables.plan import Config, Plan, baseline_options

TARGETS = get_argument_parser().parse_args().targets

try:
    PLAN = Plan(Config.read(config))
    TABLES = PLAN.tables
    # A job of a cluster is of a run that was unfinished when the main process looked.
    UNFINISHED = PLAN.unfinished if workflow.is_main_process else PLAN.runs
except ProgramError as error:
    raise WorkflowError(str(error))

CONFIG = PLAN.config
WANTED = []
"""Names of the tables that were asked for."""

os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [workflow.basedir, os.environ.get("PYTHONPATH")]))
os.environ.setdefault("TQDM_DISABLE", "1")  # bars fill logs; python -m tools.watch shows them

if workflow.is_main_process and workflow.nodes is None:  # which a cluster's executor has
    # Runs side by side share this machine: its memory, and one GPU each. --resources says otherwise.
    from latent_domains.common.gpus import visible_gpus

    available_here = {"mem_mb": psutil.virtual_memory().total // 2**20, "gpu": len(visible_gpus()), "downloads": 1}
    for resource, available in available_here.items():
        if available and resource not in workflow.global_resources:
            workflow.register_resource(resource, available)


# Snakemake takes a table that is there for finished even if records are missing that it is made of. A list of them that
# is newer than the table has it made again, and what it lacks before it.
TO_MAKE = {name: lacking for name, table in TABLES.items() if (lacking := PLAN.to_make(table))}
if workflow.is_main_process:
    for name, lacking in TO_MAKE.items():
        write_text(Path(f"tables/.{name}.missing"), "".join(f"{record}\n" for record in lacking))


def one_of(names):
    """A wildcard that is one of these names, and nothing at all if there are none."""
    return "|".join(map(re.escape, names)) or "(?!)"


def run_of(wildcards):
    return PLAN.runs[wildcards.run]


def say_what_is_missing(table):
    for text in PLAN.obstacles(table):
        print(f"{table.name}: {text}", file=sys.stderr)


def records(wildcards):
    """The records of a table that are there or can be made; what cannot be made is said once."""
    table = TABLES[wildcards.table]
    if table.name not in WANTED and workflow.is_main_process:
        WANTED.append(table.name)
        say_what_is_missing(table)
    return PLAN.records(table)


SEEDS = ["--seeds", ",".join(map(str, CONFIG.seeds))] if CONFIG.seeds else []
CHOICES = SEEDS + (["--iterations", str(CONFIG.iterations)] if CONFIG.iterations else [])
PLACES = ["--runs", str(CONFIG.runs), "--data", str(CONFIG.data)]
MODE = ["--solver-mode", CONFIG.solver_mode] if CONFIG.solver_mode else []
"""Options on the command lines of tools.tables and tools.train."""


def weights_of(wildcards):
    """What a run begins from, on the command line of tools.train."""
    file = PLAN.weights(run_of(wildcards))
    return ["--weights", str(file)] if file else []


def table_of(wildcards):
    """The definition of a table that has the run."""
    name = next(name for name, table in TABLES.items() if run_of(wildcards) in table.runs)
    return str(CONFIG.experiments / f"{name}.yaml")


localrules:
    all,
    images,
    table,


rule all:
    """Every table that the paper has numbers of."""
    input:
        [f"tables/{name}" for name in TABLES if TABLES[name].in_paper],


rule images:
    """The LMDBs of a set of images. LMDBs that stand already are left as they are."""
    output:
        temp(touch(str(PLAN.mark("{dataset}")))),
    wildcard_constraints:
        dataset=one_of(PLAN.image_sets),
    params:
        options=lambda wildcards: PLAN.images_options(wildcards.dataset),
    log:
        str(CONFIG.data / ".built" / "{dataset}.log"),
    resources:
        downloads=1,  # those of other seeds take what the first one fetched
    message:
        "LMDBs of {wildcards.dataset}"
    shell:
        "python -m tools.get_data {params.options:q} > {log:q} 2>&1"


rule derived:
    """LMDBs that are made of others: mixtures of training images, a backbone's features, statistics of style."""
    input:
        lambda wildcards: ancient([str(file) for file in PLAN.before_derived(wildcards.lmdbs)]),
    output:
        temp(touch(str(PLAN.mark("{lmdbs}")))),
    wildcard_constraints:
        lmdbs=one_of([*PLAN.mixtures, *PLAN.feature_sets, *PLAN.styles]),
    params:
        command=lambda wildcards, threads: PLAN.derived_command(wildcards.lmdbs, threads),
    log:
        str(CONFIG.data / ".built" / "{lmdbs}.log"),
    threads: 4  # or fewer, as --cores allows
    resources:
        mem_mb=4000,
    message:
        "{wildcards.lmdbs}"
    shell:
        "{params.command:q} > {log:q} 2>&1"


for weights in PLAN.pretrained:

    rule:
        # What a net begins from as trained on ImageNet: fetched, or from WEIGHTS_MIRROR or DATA_MIRROR; and converted,
        # for nets of each number of domains.
        name:
            f"weights_{weights}"
        localrule: True
        output:
            PLAN.weights_files(weights),
        params:
            command=PLAN.weights_command(weights),
        log:
            str(CONFIG.data / "weights" / f"{weights}.log"),
        message:
            f"ImageNet's weights {weights}"
        shell:
            "{params.command:q} > {log:q} 2>&1"


rule train:
    """Nets and solver, training, evaluation: a run folder up to its record. Runs that have one are none of its."""
    input:
        lambda wildcards: ancient([str(file) for file in PLAN.prerequisites(run_of(wildcards))]),
    output:
        update(str(CONFIG.runs / "{run}" / "record.json")),
    wildcard_constraints:
        run=one_of(name for name, run in UNFINISHED.items() if not isinstance(run, BaselineRun)),
    params:
        folder=lambda wildcards: str(CONFIG.runs / wildcards.run),
        name=lambda wildcards: run_of(wildcards).name,
        table=table_of,
        choices=PLACES + CHOICES,
        mode=MODE,
        weights=weights_of,
        on=lambda wildcards: ["python", "-m", "tools.one_gpu"] if PLAN.gpus_of(run_of(wildcards)) else [],
    log:
        str(CONFIG.runs / "logs" / "{run}.log"),
    threads: CONFIG.threads
    resources:
        mem_mb=lambda wildcards: PLAN.memory(run_of(wildcards)),
        gpu=lambda wildcards: PLAN.gpus_of(run_of(wildcards)),
        gpu_manufacturer=lambda wildcards: "nvidia" if PLAN.gpus_of(run_of(wildcards)) else None,
    message:
        "training {wildcards.run}"
    shell:
        "exec > {log:q} 2>&1; "
        "python -m tools.tables {params.table:q} --write {params.name:q} {params.choices:q} {params.mode:q} && "
        "exec {params.on:q} python -m tools.train --resume --wait --threads {threads} {params.mode:q} "
        "{params.weights:q} {params.folder:q}"


rule baseline:
    """A shallow baseline on features. --force: if two workflows make the same record, the second must not fail."""
    input:
        lambda wildcards: ancient([str(file) for file in PLAN.prerequisites(run_of(wildcards))]),
    output:
        update(str(CONFIG.runs / "{run}" / "record.json")),
    wildcard_constraints:
        run=one_of(name for name, run in UNFINISHED.items() if isinstance(run, BaselineRun)),
    params:
        options=lambda wildcards: [
            *baseline_options(run_of(wildcards)),
            *("--data", str(PLAN.data_folder(run_of(wildcards)))),
        ],
    log:
        str(CONFIG.runs / "{run}" / "log"),
    threads: CONFIG.threads
    resources:
        mem_mb=lambda wildcards: PLAN.memory(run_of(wildcards)),
    message:
        "baseline {wildcards.run}"
    shell:
        "OMP_NUM_THREADS={threads} OPENBLAS_NUM_THREADS={threads} "
        "python -m tools.baselines {params.options:q} --force {output:q} > {log:q} 2>&1"


rule table:
    """The table as Markdown and CSV; a cell without data says why."""
    input:
        lambda wildcards: f"tables/.{wildcards.table}.missing" if wildcards.table in TO_MAKE else [],
        definition=lambda wildcards: str(CONFIG.experiments / f"{wildcards.table}.yaml"),
        records=records,
    output:
        "tables/{table}.md",
        "tables/{table}.csv",
    wildcard_constraints:
        table=one_of(TABLES),
    params:  # other seeds, iterations or records make another table
        choices=PLACES + CHOICES,
        records=lambda wildcards: [str(record) for record in PLAN.records(TABLES[wildcards.table])],
    message:
        "tables/{wildcards.table}.md and .csv"
    shell:
        "python -m tools.tables {input.definition:q} {params.choices:q} --out tables"


rule report:
    """report.html of all runs of a table."""
    input:
        "tables/{table}.md",
        definition=lambda wildcards: str(CONFIG.experiments / f"{wildcards.table}.yaml"),
        records=records,
    output:
        directory("tables/{table}"),
    wildcard_constraints:
        table=one_of(TABLES),
    params:
        choices=["--runs-folder", str(CONFIG.runs), "--data", str(CONFIG.data), *CHOICES],
        records=lambda wildcards, input: len(input.records),
    log:
        "tables/logs/{table}.log",
    resources:
        mem_mb=4000,
    message:
        "tables/{wildcards.table}/report.html"
    shell:
        "exec > {log:q} 2>&1; mkdir -p {output:q}; "
        "if [ {params.records} -eq 0 ]; then echo 'no run to report on'; exit; fi; "
        "exec python -m tools.report --table {input.definition:q} {params.choices:q} --out {output:q}/report.html "
        "--figures {output:q}/figures"


# Snakemake itself ends with a traceback.
for target in map(os.path.relpath, TARGETS):
    if not workflow.is_rule(target) and not any(rule.is_producer(target) for rule in workflow.rules):
        raise WorkflowError(
            f"{target}: nothing that can be made, expected all, tables/ and one of {', '.join(TABLES)}, or a run without record"
        )


onsuccess:
    for name in WANTED:
        say_what_is_missing(TABLES[name])
        files = (f"tables/{name}.md", f"tables/{name}.csv", f"tables/{name}/report.html")
        print(", ".join(filter(os.path.isfile, files)), file=sys.stderr)


onerror:
    # Tables are made all the same: what failed is in their cells, and the next call goes on.
    for name in WANTED:
        say_what_is_missing(TABLES[name])
        if not PLAN.to_make(TABLES[name]):
            continue
        options = [str(CONFIG.experiments / f"{name}.yaml"), *PLACES, *CHOICES, "--out", "tables"]
        done = subprocess.run([sys.executable, "-m", "tools.tables", *options], stdout=subprocess.DEVNULL, check=False)
        if done.returncode == 0:
            for file in (f"tables/{name}.md", f"tables/{name}.csv"):
                os.utime(file, (1, 1))  # older than what it is made of: Snakemake makes it again
            print(f"tables/{name}.md: made without the runs that did not finish; its footnotes say why", file=sys.stderr)
