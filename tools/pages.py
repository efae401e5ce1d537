"""Write the figures of the kept records into the tables of pages that show them: docs/ and results/.

    python -m tools.pages                       all pages
    python -m tools.pages --check               write nothing; an error if a page is not as it would be written
    python -m tools.pages results/branch.md     one page

A table is between <!-- from results/NAME: … --> and <!-- end -->; latent_domains/tables/pages.py shows how.
"""

if __name__ == "__main__":
    from latent_domains.common.start import start

    start("tools.pages")

from pathlib import Path

from latent_domains.common.arguments import program_parser
from latent_domains.common.files import write_text
from latent_domains.common.program import ProgramError
from latent_domains.tables.pages import filled, pages


def main() -> None:
    parser = program_parser("tools.pages", __doc__)
    parser.add_argument("pages", nargs="*", type=Path, metavar="PAGE", help="a Markdown file (default: all)")
    parser.add_argument("--check", action="store_true", help="write nothing; fail if a page differs")
    options = parser.parse_args()
    texts = {page: filled(page) for page in options.pages or pages()}
    changed = [page for page, text in texts.items() if page.read_text(encoding="utf-8") != text]
    if options.check and changed:
        raise ProgramError(f"{', '.join(map(str, changed))}: not of the records, expected no change by make pages")
    for page in changed:
        write_text(page, texts[page])
    print(f"pages: {len(texts)}, changed: {', '.join(map(str, changed)) or 'none'}")
