"""Nets of PyTorch and Lua Torch in Caffe: read without either, and without running their contents.

``read``     any of the formats, by content; the tensors of a net, and no others
``pth``      torch.save, as a zip and as before, and the restricted unpickler under it
``t7``       Lua Torch's objects, and the nets of fb.resnet.torch among them
``tensors``  parts of storages, within their bounds
``reference``  the net as PyTorch computes it
``conversion`` all of it together, from command line to files; weights in Caffe's nets, compared with the reference
``backbone`` the nets that features are made with
"""
