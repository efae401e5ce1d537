"""What goes with a model's files, as JSON: the names of its classes, and how an image becomes its input."""

from dataclasses import asdict, dataclass
from pathlib import Path

from latent_domains.common.files import expect_file, json_text, read_json
from latent_domains.common.program import ProgramError
from latent_domains.common.validation import checked
from latent_domains.data.preprocessing import Preprocessing
from latent_domains.runs.outputs import class_names
from latent_domains.runs.run_folder import RunFolder


@dataclass(frozen=True)
class ModelDescription:
    """``name`` says where the model comes from; ``classes`` are named in the order of the net's outputs."""

    name: str
    classes: tuple[str, ...]
    preprocessing: Preprocessing

    def text(self) -> str:
        """The text of the file."""
        return json_text(asdict(self))


def description_file(prefix: Path) -> Path:
    """The file's name, beside PREFIX.prototxt and PREFIX.caffemodel."""
    return prefix.with_name(f"{prefix.name}.json")


def describe_run(folder: RunFolder) -> ModelDescription:
    """The description of a run's model. Classes without names are called by their labels.

    The names stand beside the LMDBs, and in the record, which is still there when the LMDBs are not.
    """
    data = folder.experiment.data
    classes = class_names(folder)
    if classes is None and folder.record.exists():
        classes = folder.read_record().classes
    classes = classes or [str(label) for label in range(data.classes)]
    return ModelDescription(
        f"{folder.experiment.dataset}, {folder.experiment.name}", tuple(classes), data.preprocessing
    )


def read_description(file: Path) -> ModelDescription:
    """Read the file. Raises ProgramError naming it if it is missing, damaged or contradicts itself."""
    expect_file(file, "the classes and the preprocessing of a model (python -m tools.export writes it)")
    try:
        description = checked(ModelDescription, read_json(file, ()), "model")
        _check_description(description)
    except ProgramError as error:
        text = str(error)
        raise ProgramError(text if text.startswith(str(file)) else f"{file}: {text}") from error
    return description


def _check_description(description: ModelDescription) -> None:
    form = description.preprocessing
    if len(set(description.classes)) != len(description.classes) or not description.classes:
        raise ProgramError(f"classes: got {list(description.classes)}, expected each name once")
    if min(form.stored_shape) < 1 or not 1 <= (form.crop or 1) <= min(form.stored_shape[1:]):
        raise ProgramError(f"crop: got {form.crop} of images of {list(form.stored_shape)}, expected one that fits")
    if len(form.mean) not in (0, 1, form.stored_shape[0]):
        raise ProgramError(f"mean: got {list(form.mean)}, expected one value, or one for each channel")
