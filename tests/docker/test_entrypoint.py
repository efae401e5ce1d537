"""docker/entrypoint.sh and docker/healthcheck.sh: who runs a command in the image, and what they say.

They run here for real, as the users they become; what only the image has (the user caffe, tini) is stood in for.
"""

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from latent_domains.common.program import ROOT

pytestmark = pytest.mark.program

ENTRYPOINT = ROOT / "docker/entrypoint.sh"
IMAGE_USER = 10001
USER, GROUP = 4321, 4322
STAND_INS = {
    "tini": '[ "$1 $2" = "-s --" ] || exit 9; shift 2; exec "$@"',
    "id": f'case "$*" in *caffe) echo {IMAGE_USER} ;; *) exec /usr/bin/id "$@" ;; esac',
}
WHO = 'echo "$(id -u) $(id -g) $(id -G)"'

as_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")

GPUS = [*Path("/dev").glob("nvidia[0-9]*"), *Path("/dev").glob("dxg")]
without_gpus = pytest.mark.skipif(bool(GPUS), reason="this machine has a GPU")


@pytest.fixture
def workspace() -> Iterator[Path]:
    """Return the folder that stands for /workspace, with what the image has made in it, all as others may read it."""
    umask = os.umask(0o022)
    # TMPDIR may lie where others may not enter, as pytest's folders do.
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        programs = folder / "bin"
        programs.mkdir()
        for program, script in STAND_INS.items():
            (programs / program).write_text(f"#!/bin/sh\n{script}\n")
            (programs / program).chmod(0o755)
        # The repository may lie where only root can read.
        shutil.copy(ENTRYPOINT, programs)
        for results in ("runs", "tables", "data"):
            (folder / results).mkdir()
            if os.getuid() == 0:
                os.chown(folder / results, IMAGE_USER, IMAGE_USER)
        (folder / "tables").chmod(0o1777)  # nothing is mounted there
        yield folder
    os.umask(umask)


def environment(workspace: Path) -> dict[str, str]:
    return {
        "PATH": f"{workspace}/bin:/usr/bin:/bin",
        "WORKSPACE": str(workspace),
        "CAFFE_VARIANT": "cpu",
        "CAFFE_CUDA": "13",
    }


def enter(
    workspace: Path, *arguments: str, become: tuple[str, ...] = (), **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the entry point, as root or as what ``become`` makes of root."""
    return subprocess.run(
        [*become, workspace / "bin/entrypoint.sh", *arguments],
        env=environment(workspace) | env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def entered(workspace: Path, *arguments: str, **options: object) -> str:
    """Return what the command prints. The entry point must succeed and say nothing."""
    result = enter(workspace, *arguments, **options)
    assert (result.returncode, result.stderr) == (0, "")
    return result.stdout.strip()


# Who runs the command


@as_root
@pytest.mark.parametrize(
    ("runs_of", "data_of"),
    [
        ((USER, GROUP), (999, 999)),
        ((0, 0), (USER, GROUP)),  # Docker made the missing runs/ as root
        ((IMAGE_USER, IMAGE_USER), (USER, GROUP)),  # nothing is mounted there
    ],
)
def test_entrypoint_the_owner_of_the_runs_or_else_of_the_data(runs_of, data_of, workspace: Path) -> None:
    os.chown(workspace / "runs", *runs_of)
    os.chown(workspace / "data", *data_of)
    (workspace / "runs").chmod(0o1777 if runs_of[0] == IMAGE_USER else 0o755)
    assert entered(workspace, "sh", "-c", f"{WHO}; touch {workspace}/runs/x") == f"{USER} {GROUP} {GROUP}"
    assert (workspace / "runs/x").stat().st_uid == USER
    assert (workspace / "data").stat().st_uid == data_of[0]


@as_root
@pytest.mark.parametrize(("data_of", "user"), [(0, IMAGE_USER), (USER, USER)])
def test_entrypoint_what_root_left_is_given_to_that_user(data_of: int, user: int, workspace: Path) -> None:
    """Of results everything, to be written over; of data the folder alone. Other people's files are theirs."""
    runs, tables, data = workspace / "runs", workspace / "tables", workspace / "data"
    (runs / "digits").mkdir()
    for file in (runs / "digits/of_root", runs / "of_another", tables / "of_root", data / "of_root"):
        file.touch()
    (runs / "link").symlink_to("/etc/passwd")
    os.chown(runs, 0, 0)
    os.chown(tables, 0, 0)
    os.chown(data, data_of, data_of)
    os.chown(runs / "of_another", 777, 777)
    passwd = Path("/etc/passwd").stat().st_uid
    assert entered(workspace, "id", "-u") == str(user)
    owners = {path.relative_to(workspace).as_posix(): path.lstat().st_uid for path in workspace.rglob("*")}
    assert owners == {
        **dict.fromkeys(("runs", "runs/digits", "runs/digits/of_root", "runs/link", "data"), user),
        **dict.fromkeys(("tables", "tables/of_root"), user),
        **{"runs/of_another": 777, "data/of_root": 0},
        **{path: 0 for path in owners if path.startswith("bin")},
    }
    assert Path("/etc/passwd").stat().st_uid == passwd


@as_root
def test_entrypoint_the_command_has_no_rights_of_root(workspace: Path) -> None:
    assert entered(workspace, "sh", "-c", WHO) == f"{IMAGE_USER} {IMAGE_USER} {IMAGE_USER}", "the image as it is"
    assert entered(workspace, "id", "-u", STAY_ROOT="1") == "0"
    os.chown(workspace / "runs", USER, GROUP)
    status = entered(workspace, "cat", "/proc/self/status")
    rights = [line.split()[1] for line in status.splitlines() if line.startswith(("CapInh", "CapPrm", "CapEff"))]
    assert [int(right, 16) for right in rights] == [0, 0, 0]


@as_root
def test_entrypoint_a_user_that_no_file_knows(workspace: Path) -> None:
    """--user UID:GID: the entry point is that user from the start, and owns nothing."""
    become = ("setpriv", "--reuid", str(USER), "--regid", str(GROUP), "--clear-groups")
    result = enter(workspace, "sh", "-c", WHO, become=become)
    assert (result.returncode, result.stdout) == (0, f"{USER} {GROUP} {GROUP}\n")
    assert result.stderr == (
        f"entrypoint: user {USER} cannot write to {workspace}/runs: results will be lost; give the folder that is "
        'mounted there to that user, or start the container with --user "$(id -u):$(id -g)"\n'
    )
    (workspace / "runs").chmod(0o1777)
    assert entered(workspace, "id", "-u", become=become) == str(USER)


@as_root
def test_entrypoint_root_that_is_only_a_name(workspace: Path) -> None:
    """In a rootless engine root is the user who started it: that user's files are to stay that user's."""
    become = ("setpriv", "--reuid", str(USER), "--regid", str(GROUP), "--clear-groups", "unshare", "--map-root-user")
    if subprocess.run([*become, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine has no user namespaces")
    os.chown(workspace / "runs", USER, GROUP)
    assert entered(workspace, "sh", "-c", f"id -u; touch {workspace}/runs/result", become=become) == "0"
    assert (workspace / "runs/result").stat().st_uid == USER


# How it is run


def test_entrypoint_the_command_takes_the_place_of_the_entry_point(workspace: Path) -> None:
    """So signals and the exit code are the command's."""
    script = 'trap "exit 7" INT; echo $$; while :; do sleep 0.05; done'
    command = [workspace / "bin/entrypoint.sh", "sh", "-c", script]
    with subprocess.Popen(command, env=environment(workspace), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert int(process.stdout.readline()) == process.pid
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 7


@without_gpus
def test_entrypoint_no_gpu_is_told_in_the_cuda_image(workspace: Path) -> None:
    result = enter(workspace, "echo", "done", CAFFE_VARIANT="cuda")
    assert (result.returncode, result.stdout) == (0, "done\n")
    assert result.stderr == (
        "entrypoint: no GPU in this container, so that only CPU mode will work; docker run --gpus all gives it those "
        "of the machine\n"
    )


# Health


@pytest.mark.parametrize("variant", ["cpu", pytest.param("cuda", marks=without_gpus)])
def test_entrypoint_health_without_gpus_is_that_caffe_runs(variant: str) -> None:
    def check(path: str) -> subprocess.CompletedProcess[str]:
        env = {"PATH": path, "CAFFE_VARIANT": variant}
        return subprocess.run([ROOT / "docker/healthcheck.sh"], env=env, capture_output=True, text=True, check=False)

    healthy = check(f"{ROOT}/.caffe/bin:/usr/bin:/bin")
    assert healthy.returncode == 0
    assert healthy.stdout.startswith("caffe version 1.0.0")
    assert check("/usr/bin:/bin").returncode != 0


@pytest.mark.parametrize(
    ("module", "cuda", "old"),
    [
        ("NVIDIA UNIX x86_64 Kernel Module  535.154.05  Thu Dec 28 15:37:48 UTC 2023", "13", "535"),
        ("NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (root@localhost)", "13", None),
        ("NVIDIA UNIX x86_64 Kernel Module  535.154.05  Thu Dec 28 15:37:48 UTC 2023", "11.8", None),
    ],
)
def test_entrypoint_a_driver_that_is_too_old_for_cuda_13(
    module: str, cuda: str, old: str | None, workspace: Path
) -> None:
    (workspace / "bin/cat").write_text(f'#!/bin/sh\necho "NVRM version: {module}"\n')
    (workspace / "bin/cat").chmod(0o755)
    said = enter(workspace, "true", CAFFE_VARIANT="cuda", CAFFE_CUDA=cuda).stderr.splitlines()
    lines = [line for line in said if "driver" in line]
    assert len(lines) == (old is not None)
    if old:
        assert f"the driver of this machine, {old}, is older than 580" in lines[0] and "CUDA=11.8" in lines[0]
