"""How fast the layers and whole nets are, beside BatchNorm, copies and PyTorch."""
