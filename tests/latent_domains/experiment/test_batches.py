import pytest
from hypothesis import given
from hypothesis import strategies as st

from latent_domains.common.program import ProgramError
from latent_domains.experiment.batches import batch_sizes, published_counts
from latent_domains.experiment.experiment import make_experiment


def sizes(dataset: str, method: str = "mda", counts: dict[str, int] | None = None, **options) -> dict[str, int]:
    experiment = make_experiment(dataset, method, **options)
    return batch_sizes(experiment, counts or published_counts(experiment))


def test_batch_sizes_per_domain():
    assert sizes("digits") == {"mnist": 128, "mnistm": 128, "usps": 128}
    assert sizes("digits", "source_only") == {"mnist": 128, "mnistm": 128}


def test_batch_sizes_per_group_the_sources_together_count_as_one_domain():
    assert sizes("digits", "dial", batch_split="per_group") == {"mnist": 64, "mnistm": 64, "usps": 128}
    assert sizes("digits", "source_only", batch_split="per_group") == {"mnist": 64, "mnistm": 64}
    assert sizes("digits", undivided=True, batch_split="per_group") == {"mnist+mnistm": 128, "usps": 128}
    targets = {"sources": ("amazon", "caltech"), "targets": ("webcam", "dslr"), "batch_size": 7}
    assert sizes("office_caltech", batch_split="per_group", **targets) == {
        "amazon": 4,
        "caltech": 3,
        "webcam": 7,
        "dslr": 7,
    }
    with pytest.raises(ProgramError, match="batch size: got 2 for 2 domains, expected at least 2 images of each"):
        sizes("digits", batch_split="per_group", batch_size=2)


def test_batch_sizes_equally():
    assert sizes("pacs") == {"art_painting": 12, "cartoon": 12, "photo": 12, "sketch": 12}
    assert sizes("pacs", "source_only") == {"art_painting": 16, "cartoon": 16, "photo": 16}
    assert sizes("pacs", batch_size=10) == {"art_painting": 3, "cartoon": 3, "photo": 2, "sketch": 2}


def test_batch_sizes_by_size():
    assert sizes("office31") == {"amazon": 175, "dslr": 31, "webcam": 50}
    assert sizes("office31", counts={"amazon": 1, "dslr": 1, "webcam": 2}) == {"amazon": 64, "dslr": 64, "webcam": 128}


def test_batch_sizes_every_domain_has_two_images_however_small_it_is():
    few = {"amazon": 9000, "dslr": 1, "webcam": 1}
    assert sizes("office31", batch_size=256, counts=few) == {"amazon": 252, "dslr": 2, "webcam": 2}
    assert sizes("office31", batch_size=7, counts=few) == {"amazon": 3, "dslr": 2, "webcam": 2}


@given(st.integers(6, 300), st.lists(st.integers(1, 9000), min_size=3, max_size=3))
def test_batch_sizes_a_batch_is_shared_out_to_the_last_image(size, counts):
    few = dict(zip(("amazon", "dslr", "webcam"), counts, strict=True))
    found = sizes("office31", batch_size=size, counts=few)
    assert sum(found.values()) == size and min(found.values()) >= 2


def test_batch_sizes_a_mixture_has_the_share_of_all_its_domains():
    mixture = "art_painting+cartoon+photo"
    assert sizes("pacs", undivided=True) == {mixture: 36, "sketch": 12}
    assert sizes("pacs", undivided=True, batch_split="per_domain", batch_size=5) == {mixture: 15, "sketch": 5}
    assert sizes("office31", undivided=True) == {"amazon+dslr": 206, "webcam": 50}


def test_published_counts_a_mixture_with_shares_has_what_they_make_of_its_domains():
    def images(sources: str, shares: tuple[int, ...], **options) -> dict[str, int]:
        experiment = make_experiment("digits", "mda", sources=tuple(sources.split("+")), shares=shares, **options)
        return published_counts(experiment)

    assert images("mnist+mnistm", (80, 20)) == {"mnist80+mnistm20": 75_000, "usps": 7291}
    assert images("mnistm+mnist", (5, 95)) == {"mnist95+mnistm5": 63_157, "usps": 7291}
    assert images("mnist+usps", (50, 50), targets=("mnistm",)) == {"mnist50+usps50": 14_582, "mnistm": 60_000}
    assert sizes("digits", shares=(80, 20)) == {"mnist80+mnistm20": 256, "usps": 128}


def test_batch_sizes_too_small_a_batch_is_refused():
    with pytest.raises(ProgramError, match="batch size: got 5 for 3 domains, expected at least 2 images of each"):
        sizes("office31", batch_size=5)
    with pytest.raises(ProgramError, match="batch size: got 1 for each domain, expected at least 2 images of each"):
        sizes("office31", batch_split="per_domain", batch_size=1)
