"""Training one run with several processes, a GPU each (docs/several_gpus.md).

``devices``       which GPUs, and whether this Caffe can use them      ``share``  the nets of one process's share
``peers``         small host arrays between the processes              ``reduction``  gradients between them
``worker``        what one process does, a program of its own          ``group``  the processes as one
"""
