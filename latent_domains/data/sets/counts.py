"""The images found beside the published counts: what is missing, what is extra, as one table."""

from collections.abc import Sequence
from dataclasses import dataclass

from latent_domains.data.sets.published import ImageSet
from latent_domains.data.sets.trees import Tree


@dataclass(frozen=True)
class Difference:
    """One line of the table."""

    place: str
    """Domain or list file."""
    name: str
    """Class, or all of them."""
    found: int
    published: int
    remark: str = ""
    """What else is to be said; by default how many are missing or extra."""

    def cells(self) -> tuple[str, ...]:
        """The line's five cells."""
        surplus = self.found - self.published
        remark = self.remark or (f"{surplus} extra" if surplus > 0 else f"{-surplus} missing")
        return self.place, self.name, str(self.found), str(self.published), remark


def differences(image_set: ImageSet, tree: Tree) -> list[Difference]:
    """Return a line for each domain without images, each class whose count differs, and each folder of no class."""
    lines = []
    for domain, published in image_set.counts.items():
        images = tree.images.get(domain)
        if images is None or not any(images.values()):
            remark = "no such folder" if images is None else "no images in its class folders"
            lines.append(Difference(domain, "all classes", 0, sum(published.values()), remark))
        else:
            found = {name: len(images.get(name, ())) for name in published}
            lines.extend(Difference(domain, name, found[name], n) for name, n in published.items() if found[name] != n)
        for folder, count in tree.unknown.get(domain, {}).items():
            lines.append(Difference(domain, folder, count, 0, "folder of no known class, left out"))
    return lines


def table(lines: Sequence[Difference]) -> str:
    """Return the lines under a heading, in columns; numbers stand at the right."""
    rows = [("", "", "found", "published", ""), *(line.cells() for line in lines)]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    return "\n".join(
        f"  {place:{widths[0]}}  {name:{widths[1]}}  {found:>{widths[2]}}  {published:>{widths[3]}}  {remark}".rstrip()
        for place, name, found, published, remark in rows
    )
