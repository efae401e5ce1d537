"""Snakemake's Kubernetes executor for jobs that share a volume.

Snakemake's own (snakemake-executor-plugin-kubernetes) takes it that nothing is shared: every file of a job is copied to
and from a storage, and a run's snapshots, from which a killed one goes on, would be gone with its pod. Here the main
process and all jobs have the same persistent volume under the same path, as on any cluster with a shared file system.
And a failed job is one failed job: the original asks for the log of the container before the one that failed, which a
pod that never restarts has not had, and the refusal ends the workflow. Everything else is the original's.
"""

import shlex
from dataclasses import replace
from typing import Any

import snakemake_executor_plugin_kubernetes as original
from kubernetes.client.rest import ApiException
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface

ExecutorSettings = original.ExecutorSettings

common_settings = replace(
    original.common_settings,
    implies_no_shared_fs=False,
    job_deploy_sources=False,
    auto_deploy_default_storage_provider=False,
)


class Executor(original.Executor):
    """The original's, whose jobs begin in the main process's folder and not in an empty one, and which may fail."""

    def __post_init__(self) -> None:
        super().__post_init__()
        read = self.kubeapi.read_namespaced_pod_log

        def log(**options: Any) -> str:
            try:
                return read(**{**options, "previous": False})
            except ApiException as error:  # the pod may be gone by now
                return f"no log: {error.reason}"

        self.kubeapi.read_namespaced_pod_log = log

    def get_job_exec_prefix(self, job: JobExecutorInterface) -> str:
        return f"cd {shlex.quote(str(self.workflow.workdir_init))}"
