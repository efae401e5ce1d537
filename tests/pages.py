"""The pages that users read."""

from latent_domains.common.program import ROOT

PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
    *sorted(page for page in (ROOT / "results").rglob("*.md") if page.name != "table.md"),
]
