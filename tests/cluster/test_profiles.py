"""The profiles of clusters: what their files name, and how Kubernetes' executor differs from Snakemake's."""

import re
import sys
from types import SimpleNamespace

import pytest
import yaml

from latent_domains.common.program import ROOT

PROFILES = ROOT / "experiments" / "profiles"
PROFILE = PROFILES / "kubernetes"


def test_slurm_profile_stops_a_training_before_its_time_limit_and_goes_on():
    profile = yaml.safe_load((PROFILES / "slurm" / "config.yaml").read_text())
    assert profile["executor"] == "slurm" and profile["restart-times"] >= 1
    assert any("--signal=TERM@" in resource for resource in profile["default-resources"])


def test_kubernetes_executor_begins_in_the_shared_folder_and_reads_the_log_of_a_pod_that_failed(monkeypatch):
    pytest.importorskip("snakemake_executor_plugin_kubernetes", reason="not installed (requirements/workflow.txt)")
    monkeypatch.syspath_prepend(PROFILE / "plugins")
    import snakemake_executor_plugin_kubernetes_volume as plugin

    monkeypatch.setitem(sys.modules, plugin.__name__, plugin)
    monkeypatch.setattr(plugin.original.Executor, "__post_init__", lambda _: None)
    executor = plugin.Executor.__new__(plugin.Executor)
    executor.kubeapi = SimpleNamespace(read_namespaced_pod_log=lambda **options: options)
    executor.workflow = SimpleNamespace(workdir_init="/work/a b")
    executor.__post_init__()
    assert executor.kubeapi.read_namespaced_pod_log(name="x", previous=True) == {"name": "x", "previous": False}
    assert executor.get_job_exec_prefix(None) == "cd '/work/a b'"
    assert not plugin.common_settings.implies_no_shared_fs and not plugin.common_settings.job_deploy_sources


def test_kubernetes_manifest_and_profile_name_the_same_things():
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
