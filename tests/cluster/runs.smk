# Trains the run folders that config["runs"] names, as the project's Snakefile does.
rule all:
    input: [f"{run}/record.json" for run in config["runs"]]


rule train:
    output: "{run}/record.json"
    shell: "exec python -m tools.train --threads 1 --resume {wildcards.run}"
