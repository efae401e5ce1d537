"""The nets of every experiment, defined once over ``caffe.NetSpec``.

``blocks``  the layers every architecture is made of      ``mnist``  the digits architecture
``domains`` inputs, domain groups and the rows w          ``losses`` the terms of Eq. 7
``family``  train, test, deploy and domain nets of an experiment, whatever its architecture and method
``solver``  its solver                                    ``__main__`` writes the committed files
"""

from tools.nets.family import NETWORKS, Nets, make_nets
from tools.nets.solver import make_solver

__all__ = ["NETWORKS", "Nets", "make_nets", "make_solver"]
