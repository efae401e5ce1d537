"""How fast the layers are: ``python -m tools.bench``.

``rows``    what is measured, against which goal    ``timing``    interleaved medians
``layers``  one mDA layer, beside Caffe's BatchNorm ``traffic``   kernels that only read and write
``digits``  whole iterations of the digits net      ``breakdown`` where an iteration's time goes
``memory``  what a layer adds to the process
"""
