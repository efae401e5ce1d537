"""The former name of python -m tools.convert_resnet: the same program, for ResNets of every depth."""

from latent_domains.common.program import run
from latent_domains.convert.torch.conversion import convert


def main() -> None:
    convert("convert_resnet18", __doc__)


if __name__ == "__main__":
    run(main)
