"""The shallow baselines (:mod:`latent_domains.baselines`) by the names that tables, records and command lines have."""

DISCOVERY = ("gong2013", "hoffman2012")
"""Those that discover domains."""

SEEDLESS = ("svm", "logistic", "logistic_own_z")
"""Those in which no random number has a part: one run of a table stands for all seeds."""

BASELINES = (*DISCOVERY, "gfk", *SEEDLESS)

VARIANTS = ("ensemble", "matching")
"""How the discovered domains are used: all, weighted for each sample, or the one nearest to the target alone."""
