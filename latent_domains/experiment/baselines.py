"""The shallow baselines (:mod:`latent_domains.baselines`) by the names that tables, records and command lines have."""

DISCOVERY = ("gong2013", "hoffman2012")
"""Those that discover domains."""

BASELINES = (*DISCOVERY, "gfk", "svm")

VARIANTS = ("ensemble", "matching")
"""How the discovered domains are used: all, weighted for each sample, or the one nearest to the target alone."""
