"""Nets of PyTorch and Lua Torch in Caffe: read without either, and without running anything that is in them.

``read``     any of the formats, by content          ``contents`` the tensors of a net, and no others
``pth``      torch.save, as a zip and as before      ``pickles`` the restricted unpickler under it
``t7``       Lua Torch's objects                     ``lua_resnet`` the nets of fb.resnet.torch among them
``tensors``  parts of storages, within their bounds
``caffe_weights`` a checkpoint's weights in Caffe's nets
``reference``  the net as PyTorch computes it        ``verify`` Caffe's beside it
``conversion`` all of it together, from command line to files
``backbone`` the nets that features are made with
"""
