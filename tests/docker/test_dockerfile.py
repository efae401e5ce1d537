"""docker/Dockerfile, .dockerignore and compose.yaml, as far as they can be read without an engine."""

import re
import shlex
import shutil
import subprocess
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatch

import pytest

from latent_domains.common.program import ROOT

DOCKERFILE = ROOT / "docker/Dockerfile"


@dataclass
class Stage:
    """A stage: what it begins from, its name and its instructions, each a keyword and the rest of it."""

    base: str
    name: str
    instructions: list[tuple[str, str]] = field(default_factory=list)

    def all(self, keyword: str) -> list[str]:
        return [rest for key, rest in self.instructions if key == keyword]


def read_stages() -> tuple[dict[str, str], list[Stage]]:
    """Return the arguments before the first stage, and the stages. Continued lines are joined, comments left out."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    text = re.sub(r"\\\n", " ", "\n".join(lines))
    arguments: dict[str, str] = {}
    stages: list[Stage] = []
    for line in filter(str.strip, text.splitlines()):
        keyword, rest = line.split(maxsplit=1)
        if keyword == "FROM":
            base, _, name = rest.split()
            stages.append(Stage(base, name))
        elif stages:
            stages[-1].instructions.append((keyword, rest))
        else:
            assert keyword == "ARG", line
            name, _, value = rest.partition("=")
            arguments[name] = value
    return arguments, stages


ARGUMENTS, STAGES = read_stages()
BY_NAME = {stage.name: stage for stage in STAGES}


def chain(name: str) -> list[Stage]:
    """Return a stage and those that its file system begins from."""
    stages = []
    while name in BY_NAME:
        stages.append(BY_NAME[name])
        name = stages[-1].base
    return stages


def copies(stage: Stage) -> list[tuple[str | None, list[str]]]:
    """Return each COPY: the stage it is from, if it is not the context, and the sources."""
    found = []
    for rest in stage.all("COPY"):
        words = shlex.split(rest)
        options = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))
        paths = [word for word in words if not word.startswith("--")]
        found.append((options.get("from"), paths[:-1]))
    return found


def package_lists(stage: Stage) -> set[str]:
    """Return the lists that a stage installs."""
    text = " ".join(stage.all("RUN"))
    return {word for call in re.findall(r"install_packages\.sh ([^&;]*)", text) for word in call.split()}


# The stages


def test_stages_begin_from_debian_or_another_stage() -> None:
    """By its name: buildah 1.28 builds no stage that another one names by an argument left at its default."""
    known = {"debian:$DEBIAN", "scratch"}
    for stage in STAGES:
        assert stage.base in known, stage.name
        assert {source for source, _ in copies(stage) if source} <= known
        known.add(stage.name)


def test_compilers_and_test_packages_stay_out_of_the_image() -> None:
    """No stage of the image installs them, and nothing but /opt is taken from the stage that has them."""
    stages = chain("runtime")
    assert [stage.name for stage in stages] == ["runtime", "environment"]
    taken = [copy for stage in stages for copy in copies(stage) if copy[0]]
    assert taken == [("project", ["/workspace"]), ("base", ["/"]), ("build", ["/opt"])]
    lists = set().union(*(package_lists(stage) for stage in (*stages, BY_NAME["base"])))
    assert lists == {"run", "python", "image"}
    assert copies(BY_NAME["base"])[-2:] == [("build", ["/src/run.txt"]), ("build", ["/src/stand-ins"])]


def test_the_project_comes_last() -> None:
    """Editing it builds no stage anew but the last ones, and in these only their last file system layer."""
    for stage in STAGES:
        if stage.name == "project":  # it is no other's beginning
            continue
        whole = [index for index, (_, sources) in enumerate(copies(stage)) if sources in (["."], ["/workspace"])]
        if stage.name in ("runtime", "test"):
            assert whole == [len(copies(stage)) - 1]
            keywords = [keyword for keyword, _ in stage.instructions]
            assert "RUN" not in keywords[len(keywords) - 1 - keywords[::-1].index("COPY") :]
        else:
            assert whole == []


def test_the_packages_that_are_named_have_lists() -> None:
    for stage in STAGES:
        for name in package_lists(stage) - {"run"}:  # which run_packages.sh writes
            assert (ROOT / f"docker/packages/{name}.txt").is_file(), name


# Its arguments


def test_the_image_is_for_gpus_by_default() -> None:
    assert ARGUMENTS == {"DEBIAN": "bookworm", "VARIANT": "cuda", "CUDNN": "yes", "NCCL": "yes"}


def test_an_argument_is_declared_where_it_is_used() -> None:
    """Docker leaves an argument of the file's head empty in a stage that does not declare it again."""
    for stage in STAGES:
        declared = {rest.partition("=")[0] for rest in stage.all("ARG")}
        used = {
            name
            for keyword, rest in stage.instructions
            if keyword in ("RUN", "ENV", "LABEL", "COPY")
            for name in ("VARIANT", "CUDNN", "NCCL", "CUDA_ARCH_BIN", "VERSION", "REVISION")
            if re.search(rf"\$\{{?{name}\b", rest)
        }
        assert used <= declared, stage.name


def test_version_is_the_project_s() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"VERSION={version}" in BY_NAME["runtime"].all("ARG")


# What the image says about itself


def environment() -> dict[str, str]:
    """Return the environment that the image sets."""
    values: dict[str, str] = {}
    for stage in reversed(chain("runtime")):
        for rest in stage.all("ENV"):
            values |= dict(word.split("=", 1) for word in shlex.split(rest))
    return values


def test_gpus_are_asked_for() -> None:
    """In the words that NVIDIA's container runtime reads."""
    values = environment()
    assert values["NVIDIA_VISIBLE_DEVICES"] == "all"
    assert values["NVIDIA_DRIVER_CAPABILITIES"] == "compute,utility"
    assert values["CAFFE_VARIANT"] == "$VARIANT"


def test_the_embedded_interpreter_finds_everything() -> None:
    """The folders that env.sh names in a checkout, for the Python of the packages to run."""
    values = environment()
    assert values["PYTHONPATH"].split(":") == ["/workspace", "/opt/caffe/python", "/opt/venv/packages"]
    assert any("ln -s lib/python3*/site-packages /opt/venv/packages" in rest for rest in BY_NAME["build"].all("RUN"))
    assert values["PATH"].split(":")[:2] == ["/opt/venv/bin", "/opt/caffe/bin"]
    assert values["OPENBLAS_NUM_THREADS"] == "1"
    assert not re.findall(r"python3\.\d+", DOCKERFILE.read_text())


# The context


def ignored(path: str) -> bool:
    """Whether .dockerignore leaves out a path of the context: itself or a folder above it; the last line counts."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    found = False
    for line in (line for line in lines if line and line[0] != "#"):
        pattern, parts = line.removeprefix("!").removeprefix("/"), path.split("/")
        names = parts if pattern.startswith("**/") else ["/".join(parts[: length + 1]) for length in range(len(parts))]
        depth = pattern.removeprefix("**/").count("/")
        if any(name.count("/") == depth and fnmatch(name, pattern.removeprefix("**/")) for name in names):
            found = not line.startswith("!")
    return found


def test_what_is_copied_is_there() -> None:
    for stage in STAGES:
        for source, paths in copies(stage):
            for path in paths if source is None else []:
                assert path == "." or list(ROOT.glob(path)), path
                assert path == "." or not ignored(path), path


def test_what_a_used_checkout_holds_stays_out() -> None:
    """Everything that git ignores is ignored here too, and so is git's own folder."""
    for line in (ROOT / ".gitignore").read_text().split():
        if not line.startswith("!"):
            path = line.strip("/").replace("*.py[cod]", "x.pyc").replace("*", "x")
            assert ignored(path), line
            assert ignored(f"{path}/deeper"), line
    assert ignored(".git/HEAD")
    assert ignored("tools/__pycache__/files.cpython-311.pyc")


@pytest.mark.parametrize("path", ["photos/cat/1.jpg", "office31.zip", "more.csv", "notes", "model.caffemodel"])
def test_what_is_not_the_project_s_stays_out(path: str) -> None:
    """An image is passed on, which many data sets and people's own pictures may not be."""
    assert ignored(path) and not ignored(f"tools/{path}")


def test_every_tracked_file_goes_in() -> None:
    if not (ROOT / ".git").exists() or shutil.which("git") is None:
        pytest.skip("not a git checkout")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert [path for path in listed.split("\0") if path and ignored(path)] == ["runs/.gitignore"]


def test_no_address_of_a_registry() -> None:
    """Images, packages and wheels are named; where they come from is the engine's, apt's and pip's to know.

    The homes of Caffe's source are no registries.
    """
    files = [path for path in (ROOT / "docker").rglob("*") if path.is_file() and path.suffix != ".patch"]
    for path in [*files, ROOT / ".dockerignore", ROOT / "compose.yaml"]:
        text = re.sub(
            r"https?://\S+/caffe/(\$archive|archive/\w+\.tar\.gz)|http://\", \"https://", "", path.read_text()
        )
        assert not re.search(r"https?://|ftp://|docker\.io|quay\.io|ghcr\.io|nvcr\.io", text), path
