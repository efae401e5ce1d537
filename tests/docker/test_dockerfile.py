"""docker/Dockerfile, .dockerignore and compose.yaml, as far as they can be read without an engine."""

import re
import shlex
import shutil
import subprocess
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


def read_stages() -> list[Stage]:
    """Return the stages. Continued lines are joined, comments left out."""
    lines = [line for line in DOCKERFILE.read_text().splitlines() if not line.lstrip().startswith("#")]
    text = re.sub(r"\\\n", " ", "\n".join(lines))
    stages: list[Stage] = []
    for line in filter(str.strip, text.splitlines()):
        keyword, rest = line.split(maxsplit=1)
        if keyword == "FROM":
            base, _, name = rest.split()
            stages.append(Stage(base, name))
        elif stages:
            stages[-1].instructions.append((keyword, rest))
    return stages


STAGES = read_stages()


def copies(stage: Stage) -> list[tuple[str | None, list[str]]]:
    """Return each COPY: the stage it is from, if it is not the context, and the sources."""
    found = []
    for rest in stage.all("COPY"):
        words = shlex.split(rest)
        options = dict(word.removeprefix("--").split("=", 1) for word in words if word.startswith("--"))
        paths = [word for word in words if not word.startswith("--")]
        found.append((options.get("from"), paths[:-1]))
    return found


def test_stages_begin_from_debian_or_another_stage() -> None:
    """By its name: buildah 1.28 builds no stage that another one names by an argument left at its default."""
    known = {"debian:$DEBIAN", "scratch"}
    for stage in STAGES:
        assert stage.base in known, stage.name
        assert {source for source, _ in copies(stage) if source} <= known
        known.add(stage.name)


def test_an_argument_is_declared_where_it_is_used() -> None:
    """Docker leaves an argument of the file's head empty in a stage that does not declare it again."""
    for stage in STAGES:
        declared = {rest.partition("=")[0] for rest in stage.all("ARG")}
        used = {
            name
            for keyword, rest in stage.instructions
            if keyword in ("RUN", "ENV", "LABEL", "COPY")
            for name in ("VARIANT", "CUDA", "CUDNN", "CUDA_ARCH_BIN", "VERSION", "REVISION")
            if re.search(rf"\$\{{?{name}\b", rest)
        }
        assert used <= declared, stage.name


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
