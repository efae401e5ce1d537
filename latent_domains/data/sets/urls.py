"""Where the datasets are published, and the hashes of their files.

A mirror folder has the same files: ``mnist/*.gz``, ``usps/zip.*.gz``, ``bsds500/*.jpg``, ``office_caltech_surf/*.mat``.
"""

from pathlib import Path

from latent_domains.data.published_file import PublishedFile


def _mnist(name: str, sha256: str) -> PublishedFile:
    bases = (
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        "https://storage.googleapis.com/cvdf-datasets/mnist/",
        "http://yann.lecun.com/exdb/mnist/",
    )
    return PublishedFile(f"mnist/{name}", "MNIST", {"sha256": sha256}, tuple(base + name for base in bases))


def _usps(name: str, sha256: str) -> PublishedFile:
    bases = (
        "https://hastie.su.domains/ElemStatLearn/datasets/",
        "https://web.stanford.edu/~hastie/ElemStatLearn/datasets/",
        "https://github.com/robintux/Datasets4StackOverFlowQuestions/raw/15e8ef9d1036580b5e5c922460486c27dacf6382/",
    )
    return PublishedFile(f"usps/{name}", "USPS", {"sha256": sha256}, tuple(base + name for base in bases))


def _surf(name: str, sha256: str, elsewhere: str) -> PublishedFile:
    """Return Gong et al.'s file in two repositories that have the same one; the second has another name for it."""
    toolbox = "viggin/domain-adaptation-toolbox/2a991816a0ac39043b526c2b0cbe01bc844d8890/ToRelease_GFK/data"
    collection = "redhat12345/OfficeCaltechDomainAdaptation/74f70487e1b975d1af05bb9a2ecfbf14a7000080/features/surf"
    urls = tuple(
        f"https://raw.githubusercontent.com/{place}" for place in (f"{toolbox}/{name}", f"{collection}/{elsewhere}")
    )
    return PublishedFile(f"office_caltech_surf/{name}", "Office-Caltech's SURF histograms", {"sha256": sha256}, urls)


MNIST_TRAIN = (
    _mnist("train-images-idx3-ubyte.gz", "ba891046e6505d7aadcbbe25680a0738ad16aec93bde7f9b65e87a2fc25776db"),
    _mnist("train-labels-idx1-ubyte.gz", "65a50cbbf4e906d70832878ad85ccda5333a97f0f4c3dd2ef09a8a9eef7101c5"),
)
MNIST_TEST = (
    _mnist("t10k-images-idx3-ubyte.gz", "0fa7898d509279e482958e8ce81c8e77db3f2f8254e26661ceb7762c4d494ce7"),
    _mnist("t10k-labels-idx1-ubyte.gz", "ff7bcfd416de33731a308c3f266cc351222c34898ecbeaf847f06e48f7ec33f2"),
)
USPS_TRAIN = _usps("zip.train.gz", "abc9f5c75b997cabe66b5d01727d5a681c69298e1641a8d37b55433a52129dc0")
USPS_TEST = _usps("zip.test.gz", "6bde17b4f1cd68e0630cd2751d6495b5795d9165ab2dc4a0be8b7002b732f4cc")

BSDS500_URLS = (
    "https://www2.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/BSR/BSR_bsds500.tgz",
    "http://www.eecs.berkeley.edu/Research/Projects/CS/vision/grouping/BSR/BSR_bsds500.tgz",
    "https://github.com/BIDS/BSDS500/archive/a04b7c6c3a9f0ace74bf205c72a43d32e1c72722.tar.gz",  # the same photographs
)
BSDS500_SUMS = Path(__file__).with_name("bsds500.sha256")
"""One line ``sha256  name`` for each of the 500 photographs, as sha256sum(1) writes and checks them."""

OFFICE_CALTECH_SURF = {
    "amazon": _surf(
        "amazon_SURF_L10.mat", "df32548b994e18d364c99e1f317e1fae100597259f0423a41b90f4f68187bb1f", "amazon.mat"
    ),
    "caltech": _surf(
        "Caltech10_SURF_L10.mat", "4f9334c8ced489d5054de97a5fd51a61f017f3bcd1f38c9a85c6d78cb9d7bda5", "caltech10.mat"
    ),
    "dslr": _surf("dslr_SURF_L10.mat", "44d673c68e1d07b837893aa74dba3b986e4a6cc3fd66f0dd357683bdef059216", "dslr.mat"),
    "webcam": _surf(
        "webcam_SURF_L10.mat", "a6a9c78b4b7181dfbb58bcfd351d4ebd737f171c31247b8884948aa156d3f700", "webcam.mat"
    ),
}
"""By domain: 800 bins of SURF histograms, and classes from 1, with which Gong et al.'s GFK was published."""
