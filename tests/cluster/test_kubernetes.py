"""The Kubernetes profile before a stand-in for the API server: the Jobs that it would start, and their commands."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest
import yaml

from latent_domains.common.program import ROOT
from latent_domains.experiment.experiment import Experiment, make_experiment
from latent_domains.runs.run_folder import RunFolder
from latent_domains.runs.run_state import State, state_of
from latent_domains.runs.write import write_run
from tests.cluster.kubernetes_api import Api, environment, serving

PROFILE = ROOT / "experiments" / "profiles" / "kubernetes"
pytest.importorskip("snakemake_executor_plugin_kubernetes", reason="not installed (requirements/workflow.txt)")


def tiny_experiment() -> Experiment:
    return make_experiment("digits", "source_only", batch_size=4, iterations=6)


def snakemake(api: Api, work: Path, runs: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Train the run folders ``runs`` of ``work`` as the profile does."""
    command = ["snakemake", "--profile", PROFILE, "--snakefile", ROOT / "tests/cluster/runs.smk", "--directory", work]
    command += ["--latency-wait", "10", "--seconds-between-status-checks", "1", *options]
    return subprocess.run(
        [*map(str, command), "--config", f"runs={runs}", "--", "all"],
        cwd=ROOT,
        env=environment(api, PROFILE / "plugins"),
        capture_output=True,
        text=True,
        timeout=300,
    )


@pytest.mark.program
def test_runs_become_jobs_and_one_that_fails_is_tried_again_and_stops_no_other(tiny_data, tmp_path):
    work = tmp_path / "work"
    for name in ("a", "b"):
        write_run(tiny_experiment(), work / name, data=tiny_data, solver_mode="CPU")
    (work / "a" / "train.prototxt").write_text("nothing")
    (tmp_path / "api").mkdir()
    gpu = ["--set-resources", "train:gpu=1", "train:gpu_manufacturer='nvidia'"]
    with serving(tmp_path / "api") as api:
        done = snakemake(api, work, "['a', 'b']", "--restart-times", "1", "--jobs", "1", "--keep-going", *gpu)
        logs = {name: api.log(name) for name in api.jobs}
    assert done.returncode == 1 and "WorkflowError: Kubernetes" not in done.stderr, done.stderr
    assert sorted(state_of(RunFolder.load(work / name)).state for name in ("a", "b")) == [State.FAILED, State.FINISHED]
    failed = {name for name, log in logs.items() if "train.prototxt" in log}
    assert len(api.jobs) == 3 and len(failed) == 2
    assert set(api.deleted) == {*api.jobs, *api.secrets}, "nothing is left in the cluster"
    kept = [file.read_text() for file in (work / ".snakemake").rglob("*.log") if file.stem in api.jobs]
    assert len(kept) == 2 and all("train.prototxt" in log for log in kept)

    [name] = api.jobs.keys() - failed
    pod = api.pod(name)
    [container] = pod["containers"]
    assert container["image"] == "latent-domains" and pod["restartPolicy"] == "Never"
    assert {"name": "latent-domains", "mountPath": "/work"} in container["volumeMounts"]
    claims = {v["name"]: v.get("persistentVolumeClaim", {}).get("claimName") for v in pod["volumes"]}
    assert claims["latent-domains"] == "latent-domains"
    limits = container["resources"]["limits"]
    assert limits["nvidia.com/gpu"] == container["resources"]["requests"]["nvidia.com/gpu"] == "1"
    assert limits["memory"] == "4000M" and limits["cpu"] == "1000m"
    assert [toleration["key"] for toleration in pod["tolerations"]] == ["nvidia.com/gpu"]
    command = container["args"][1]
    assert f"cd {shlex.quote(str(work))} && " in command and "--default-storage-provider" not in command


def test_the_manifest_and_the_profile_name_the_same_things():
    profile = yaml.safe_load((PROFILE / "config.yaml").read_text())
    kinds = {document["kind"]: document for document in yaml.safe_load_all((PROFILE / "workflow.yaml").read_text())}
    pod = kinds["Job"]["spec"]["template"]["spec"]
    [container] = pod["containers"]
    [volume] = profile["kubernetes-volume-persistent-volumes"]
    claim, path = volume.split(":")
    assert kinds["PersistentVolumeClaim"]["metadata"]["name"] == claim
    assert [v["persistentVolumeClaim"]["claimName"] for v in pod["volumes"]] == [claim]
    assert container["volumeMounts"] == [{"name": claim, "mountPath": path}] and profile["directory"] == path
    assert container["image"] == profile["container-image"]
    assert pod["serviceAccountName"] == kinds["ServiceAccount"]["metadata"]["name"]
    assert "experiments/profiles/kubernetes" in container["command"]
    [path] = [variable["value"] for variable in container["env"] if variable["name"] == "PYTHONPATH"]
    dockerfile = (ROOT / "docker" / "Dockerfile").read_text()
    [image] = re.findall(r"PYTHONPATH=(/workspace:\S+)", dockerfile)
    plugins = "/workspace/" + str((PROFILE / "plugins").relative_to(ROOT))
    assert sorted(path.split(":")) == sorted([*image.split(":"), plugins])
