"""The nets of every experiment, defined once over ``caffe.NetSpec``.

``blocks``  the layers every architecture is made of      ``inputs``  Data layers, and a batch of them
``mnist``, ``alexnet``, ``alexnet_fc7``, ``resnet``, ``lite0``, ``any_features``  the architectures: stem, branch, trunk
``branch``  what all their branches share                 ``domains``  domain groups and the rows w
``family``  train, test, deploy and domain nets of an experiment, whatever its architecture and method
``losses``  the terms of Eq. 7                            ``training_files``  nets and their solver together
``committed`` the files in the repository, which tools.nets writes
"""
