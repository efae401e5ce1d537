"""A real SLURM of one node on loopback, with a configuration of its own in a temporary folder.

munged, slurmctld and slurmd run as the caller's own processes on free ports. There need be no systemd and no cgroups:
processes are tracked by their parents (proctrack/linuxproc), and nothing holds a job to its memory or its cores.
"""

import getpass
import os
import secrets
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.programs import wait_until

PROGRAMS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "squeue", "scancel")

CONFIGURATION = """\
ClusterName=loopback
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller_port}
SlurmdPort={node_port}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
ReturnToService=2
MinJobAge=3600
KillWait=30
NodeName={host} NodeAddr=127.0.0.1 CPUs={cores} RealMemory={memory} State=UNKNOWN
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE State=UP
"""


def programs_missing() -> list[str]:
    """The programs that are not installed (docker/install_packages.sh slurm installs them)."""
    return [name for name in PROGRAMS if _find(name) is None]


def _find(name: str) -> str | None:
    """Debian puts daemons where a user's PATH need not lead."""
    return shutil.which(name, path=f"{os.environ['PATH']}:/usr/sbin")


@dataclass(frozen=True)
class Cluster:
    """A running cluster: its folder and the environment in which SLURM's commands talk to it."""

    folder: Path
    environment: dict[str, str]

    def run(self, *command: str) -> str:
        """What one of SLURM's commands prints."""
        return subprocess.run(
            command, env=self.environment, check=True, capture_output=True, text=True, timeout=60
        ).stdout.strip()

    def jobs(self, states: str = "pending,running") -> dict[str, str]:
        """The jobs in one of ``states``: their ids, and what Snakemake says they are for (rule and wildcards)."""
        lines = self.run("squeue", "--noheader", f"--states={states}", "--format=%i|%k").splitlines()
        return dict(line.split("|", 1) for line in lines)


@contextmanager
def cluster(folder: Path, *, cores: int = 2, memory: int = 4000) -> Iterator[Cluster]:
    """Start a cluster of one node with ``cores`` and ``memory`` (MB) in ``folder``; stop all of it at the end."""
    folder.chmod(0o755)
    host = socket.gethostname()
    controller_port, node_port = _free_ports(2)
    configuration = folder / "slurm.conf"
    configuration.write_text(
        CONFIGURATION.format(
            folder=folder,
            host=host,
            user=getpass.getuser(),
            cores=cores,
            memory=memory,
            controller_port=controller_port,
            node_port=node_port,
        )
    )
    for name in ("state", "spool"):
        (folder / name).mkdir()
    key = folder / "munge.key"
    key.touch(0o600)
    key.write_bytes(secrets.token_bytes(128))
    found = Cluster(folder, {**os.environ, "SLURM_CONF": str(configuration), "PATH": _path_with_srun(folder)})
    with ExitStack() as daemons:
        _daemon(
            daemons,
            found,
            "munged",
            "--foreground",
            "--force",
            "--num-threads=2",
            f"--key-file={key}",
            f"--socket={folder}/munge.socket",
            f"--pid-file={folder}/munged.pid",
            f"--log-file={folder}/munged.log",
            f"--seed-file={folder}/munged.seed",
        )
        wait_until((folder / "munge.socket").exists, "munged's socket")
        _daemon(daemons, found, "slurmctld", "-D", "-f", str(configuration))
        _daemon(daemons, found, "slurmd", "-D", "-f", str(configuration), "-N", host)
        wait_until(lambda: _sinfo(found) == "idle", f"an idle node (see {folder}/*.log)", every=0.2)
        try:
            yield found
        finally:
            leave(found)


def _path_with_srun(folder: Path) -> str:
    """PATH with an srun that finds the configuration: Snakemake's job step takes SLURM_CONF out of its environment."""
    srun = folder / "bin" / "srun"
    srun.parent.mkdir()
    srun.write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {_find("srun")} "$@"\n')
    srun.chmod(0o755)
    return f"{srun.parent}:{os.environ['PATH']}"


def leave(found: Cluster) -> None:
    """End all jobs: slurmd would leave their processes behind."""
    found.run("scancel", f"--user={getpass.getuser()}")
    wait_until(lambda: not found.jobs("pending,running,completing"), "the end of all jobs", every=0.2)


def _daemon(daemons: ExitStack, found: Cluster, name: str, *arguments: str) -> None:
    """Start a daemon in the foreground; it is ended, and waited for, when ``daemons`` are left."""
    with (found.folder / f"{name}.out.log").open("w") as out:
        process = subprocess.Popen(
            [_find(name), *arguments], env=found.environment, stdin=subprocess.DEVNULL, stdout=out, stderr=out
        )

    def end() -> None:
        process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    daemons.callback(end)


def _sinfo(found: Cluster) -> str:
    done = subprocess.run(
        ["sinfo", "--noheader", "--format=%T"], env=found.environment, capture_output=True, text=True, timeout=60
    )
    return done.stdout.strip()


def _free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
