"""The Kubernetes profile before a stand-in for the API server: the Jobs that it would start, and their commands."""

import re
import subprocess

import pytest
import yaml

from latent_domains.common.program import ROOT
from latent_domains.experiment.experiment import make_experiment
from latent_domains.runs.run_state import State, state_of
from latent_domains.runs.write import write_run
from tests.cluster.kubernetes_api import environment, serving

PROFILE = ROOT / "experiments" / "profiles" / "kubernetes"
pytest.importorskip("snakemake_executor_plugin_kubernetes", reason="not installed (requirements/workflow.txt)")


def test_a_run_becomes_a_job_with_image_volume_and_resources(tiny_data, tmp_path):
    work = tmp_path / "work"
    folder = write_run(
        make_experiment("digits", "source_only", batch_size=4, iterations=6),
        work / "run",
        data=tiny_data,
        solver_mode="CPU",
    )
    (tmp_path / "api").mkdir()
    with serving(tmp_path / "api") as api:
        done = subprocess.run(
            [
                "snakemake",
                "--profile",
                PROFILE,
                "--snakefile",
                ROOT / "tests" / "cluster" / "runs.smk",
                "--directory",
                work,
                "--latency-wait",
                "10",
                "--restart-times",
                "0",
                "--set-resources",
                "train:gpu=1",
                "train:gpu_manufacturer='nvidia'",
                "--config",
                "runs=['run']",
                "--",
                "all",
            ],
            cwd=ROOT,
            env=environment(api, PROFILE / "plugins"),
            capture_output=True,
            text=True,
            timeout=300,
        )
        logs = "".join(log.read_text() for log in api.folder.glob("*.log"))
    assert done.returncode == 0, done.stdout + done.stderr + logs
    assert state_of(folder).state is State.FINISHED
    [name] = api.jobs
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
    assert f"cd {work} && " in container["args"][1] and "--default-storage-provider" not in container["args"][1]
    assert set(api.deleted) == {name, *api.secrets}, "nothing is left in the cluster"


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
