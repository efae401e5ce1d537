"""Reading Caffe's text format."""

from pathlib import Path
from typing import TypeVar

from google.protobuf import text_format
from google.protobuf.message import Message

from latent_domains.common.program import ProgramError

_Message = TypeVar("_Message", bound=Message)


def read(file: Path, message: _Message, what: str = "a prototxt of Caffe's") -> _Message:
    """Fill ``message`` from a file and return it. Raises ProgramError naming the file if it is not ``what``."""
    try:
        return text_format.Parse(file.read_text(), message)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        raise ProgramError(f"{file}: not {what}: {error}") from error
