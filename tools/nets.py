"""Write the committed prototxt, solvers and hashes, or check that they are equal to the generator's."""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.nets")

from latent_domains.common.arguments import program_parser
from latent_domains.common.files import write_text
from latent_domains.common.program import ROOT, ProgramError
from latent_domains.nets.training_files import committed_files


def main() -> None:
    parser = program_parser("tools.nets", __doc__)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a committed file differs")
    check = parser.parse_args().check
    different = []
    for path, text in committed_files().items():
        file = ROOT / path
        if file.is_file() and file.read_text() == text:
            continue
        different.append(path)
        if not check:
            write_text(file, text)
            print(f"wrote {path}")
    if check and different:
        raise ProgramError(f"{', '.join(different)}: not what the generator writes; run python -m tools.nets")
