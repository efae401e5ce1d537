"""The paper's tables, from data to report.

    snakemake tables/digits --cores 2          Table 1: LMDBs, nets and solvers, training, records, table, report
    snakemake --cores all                      all tables that the paper has numbers of, as far as their data is here
    snakemake tables/pacs --config images=DIR  values come after the targets

A table is a file of experiments/. Its target makes tables/NAME.md, tables/NAME.csv and tables/NAME/report.html.
Values of --config: seeds=0,1  iterations=N  images=DIR (the unpacked archive of an image set)  solver_mode=CPU|GPU
weights=none (begin at random, not with ImageNet's)  data=DIR  runs=DIR  experiments=DIR  threads=N (of one run).

A run is finished when its record is there. No rule has records or LMDBs as outputs, which Snakemake deletes before a
job and after one that failed. A job's output is a mark: this call has made it.
"""

import os
import shlex
import shutil
from uuid import uuid4

import psutil

from latent_domains.common.gpus import visible_gpus
from latent_domains.tables.options import Config
from latent_domains.tables.plan import Plan

CONFIG = Config.read(config)
PLAN = Plan(CONFIG)
TABLE_OPTIONS, REPORT_OPTIONS = ([name, str(CONFIG.runs), *CONFIG.choices] for name in ("--runs", "--runs-folder"))

os.environ.setdefault("TQDM_DISABLE", "1")  # bars fill logs; python -m tools.watch shows them
os.environ.setdefault("SNAKEMAKE_CALL", uuid4().hex)  # a cluster's job reads this file again
MADE = f".snakemake/made/{os.environ['SNAKEMAKE_CALL']}"  # each call has its own marks, and removes no others

if workflow.is_main_process and workflow.nodes is None:  # a cluster's executor has nodes
    # Runs side by side share this machine: its memory, and one GPU each. What one seed downloads, the others take.
    machine = {"mem_mb": psutil.virtual_memory().total // 2**20, "gpu": len(visible_gpus()) or 1, "downloads": 1}
    workflow.global_resources.update({**machine, **workflow.global_resources})


def marks(jobs):
    """The marks of jobs by name: the rule's name, then what it makes."""
    return [f"{MADE}/{job}" for job in jobs]


def made_of(wildcards):
    """The files that a table is made of: its definition first, records, and marks of the runs that get one now."""
    table = PLAN.table(wildcards.table)
    return [*map(str, (*table.files, *PLAN.records(table))), *marks(PLAN.to_make(table))]


def whole(table):
    """The files of a table's target. With the marks, Snakemake looks for missing runs even where the table is there."""
    runs = PLAN.to_make(table)
    pages = [f"tables/{table.name}"] if runs or PLAN.records(table) else []
    return [*marks(runs), f"tables/{table.name}.md", *pages]


envvars: "SNAKEMAKE_CALL"
localrules: all, fetch, table
wildcard_constraints: table=r"[^/]+(?<!\.md)(?<!\.csv)"


rule all:
    """Every table that the paper has numbers of."""
    input: lambda wildcards: [file for table in PLAN.tables.values() if table.in_paper for file in whole(table)]
    message: "all tables"


for table in PLAN.tables.values():
    for target in (f"tables/{table.name}", f"tables/{table.name}/"):  # the second as shells complete it
        rule:
            name: target
            input: lambda wildcards, table=table: whole(table)
            message: "{rule}"


rule fetch:
    """What comes from outside: LMDBs of images, weights trained on ImageNet. What stands already is left as it is."""
    output: touch(MADE + "/fetch/{step}")
    params: command=lambda wildcards, threads: PLAN.command(f"fetch/{wildcards.step}", threads)
    log: str(CONFIG.data / ".built" / "{step}.log")
    threads: CONFIG.threads
    resources: downloads=1
    message: "{wildcards.step}"
    shell: "{params.command:q} > {log:q} 2>&1"


use rule fetch as derive with:
    # LMDBs that are made of others: mixtures of training images, a backbone's features, statistics of style.
    input: lambda wildcards: marks(PLAN.before_need(f"derive/{wildcards.step}"))
    output: touch(MADE + "/derive/{step}")
    params: command=lambda wildcards, threads: PLAN.command(f"derive/{wildcards.step}", threads)
    threads: 4  # or fewer, as --cores allows
    resources: mem_mb=4000


rule train:
    """Nets and solver, training, evaluation: a run folder up to its record. What another call trains is waited for."""
    input: lambda wildcards: marks(PLAN.before_run(PLAN.runs[wildcards.run]))
    output: touch(MADE + "/train/{run}")
    params: script=lambda wildcards, threads: PLAN.run_script(PLAN.runs[wildcards.run], threads)
    log: str(CONFIG.runs / "logs" / "{run}.log")
    threads: CONFIG.threads
    resources:
        mem_mb=lambda wildcards: PLAN.memory(PLAN.runs[wildcards.run]),
        gpu=lambda wildcards: PLAN.gpus_of(PLAN.runs[wildcards.run]),
        gpu_manufacturer=lambda wildcards: "nvidia" if PLAN.gpus_of(PLAN.runs[wildcards.run]) else None,
    message: "{rule} {wildcards.run}"
    shell: "exec > {log:q} 2>&1; {params.script}"


use rule train as baseline with:
    # A shallow baseline on features.
    output: touch(MADE + "/baseline/{run}")
    log: str(CONFIG.runs / "{run}" / "log")


rule table:
    """The table as Markdown and CSV; a cell without data says why."""
    input: made_of
    output: "tables/{table}.md", "tables/{table}.csv"
    params:
        options=TABLE_OPTIONS,
        contents=lambda wildcards: PLAN.contents(PLAN.table(wildcards.table)),  # others make another
        obstacles=lambda wildcards: "\n".join(PLAN.obstacles(PLAN.table(wildcards.table))),
    message: "tables/{wildcards.table}.md and .csv\n{params.obstacles}"
    shell: "python -m tools.tables {input[0]:q} {params.options:q} --out tables"


rule report:
    """report.html of all runs of a table."""
    input: made_of
    output: directory("tables/{table}")
    params: options=REPORT_OPTIONS, contents=lambda wildcards: PLAN.contents(PLAN.table(wildcards.table))
    log: "tables/logs/{table}.log"
    resources: mem_mb=4000
    message: "tables/{wildcards.table}/report.html"
    shell:
        "python -m tools.report --table {input[0]:q} {params.options:q} --out {output:q}/report.html "
        "--figures {output:q}/figures > {log:q} 2>&1"


onsuccess:
    shutil.rmtree(MADE, ignore_errors=True)


onerror:
    shutil.rmtree(MADE, ignore_errors=True)
    print("The same command continues. This prints the table NAME of the finished runs:")
    print(f"python -m tools.tables {CONFIG.experiments}/NAME.yaml {shlex.join(TABLE_OPTIONS)}")
