"""The nets of every experiment, defined once over ``caffe.NetSpec``, of any of the :mod:`latent_domains.networks`.

``inputs``  Data layers, and a batch of them           ``domains``  domain groups and the rows w
``losses``  the terms of Eq. 7
``family``  train, test, deploy and domain nets of an experiment, whatever its network and method
``training_files``  nets and their solver together; the files in the repository, which tools.nets writes
"""
