"""Which domain each picture is of: see :mod:`latent_domains.domains.assign`."""
