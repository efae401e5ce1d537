"""The networks: one file for each has its layers, its facts, its weights and its tensors in PyTorch.

``network``  what a network is                        ``blocks``  layers and branches that all are made of
``inverted_residuals``  what Lite0 and MobileNetV2 share
``mnist``, ``alexnet``, ``alexnet_fc7``, ``any_features``, ``resnet``, ``lite0``, ``mobilenet_v2``  the networks

Caffe is loaded when the first layer is made: programs read the facts without it, and :mod:`latent_domains.experiment`,
which lists the networks, lies above. Nothing here may import an experiment but for its type (``blocks``).
"""
