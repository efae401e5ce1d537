"""Shallow methods that discover latent domains on fixed features, for comparison (docs/baselines.md).

An estimator of domains has ``fit(X, y)``, then ``assignments_`` and ``labels_``: :class:`DistinctiveDomains` (Gong,
Grauman, Sha, NIPS 2013) and :class:`ConstrainedDomains` (Hoffman, Kulis, Darrell, Saenko, ECCV 2012). A classifier has
``fit(X_source, y_source, X_target, …)`` and ``predict(X)``: :class:`SourceClassifier`, :class:`GFKClassifier` and
:class:`LatentDomainClassifier`, which adapts from each discovered domain.
"""

from latent_domains.baselines.classifiers import GFKClassifier, LatentDomainClassifier, SourceClassifier
from latent_domains.baselines.gfk import GeodesicFlowKernel
from latent_domains.baselines.gong2013 import DistinctiveDomains, choose_domains
from latent_domains.baselines.hoffman2012 import ConstrainedDomains

__all__ = [
    "ConstrainedDomains",
    "DistinctiveDomains",
    "GFKClassifier",
    "GeodesicFlowKernel",
    "LatentDomainClassifier",
    "SourceClassifier",
    "choose_domains",
]
