"""A report of runs as one HTML file that loads nothing: pictures first, numbers beside them."""

from latent_domains.report.build import build as build
