import pytest

from latent_domains.data.sets.published import OFFICE31, OFFICE_CALTECH, PACS


@pytest.mark.parametrize(
    ("image_set", "totals", "classes"),
    [
        (OFFICE31, {"amazon": 2817, "dslr": 498, "webcam": 795}, 31),
        (OFFICE_CALTECH, {"amazon": 958, "caltech": 1123, "dslr": 157, "webcam": 295}, 10),
        (PACS, {"art_painting": 2048, "cartoon": 2344, "photo": 1670, "sketch": 3929}, 7),
    ],
)
def test_published_the_sorted_classes_sum_up_to_the_papers_totals(image_set, totals, classes):
    assert {domain: sum(counts.values()) for domain, counts in image_set.counts.items()} == totals
    assert len(image_set.classes) == classes and list(totals) == sorted(totals)
    for counts in image_set.counts.values():
        assert tuple(counts) == image_set.classes == tuple(sorted(image_set.classes))
        assert min(counts.values()) > 0
