"""Nets of PyTorch and Lua Torch in Caffe: read without either, and without running anything that is in them.

``read``     any of the formats, by content          ``resnet`` what a ResNet must hold
``contents`` the tensors of a net, and no others     ``lite0``  what EfficientNet-Lite0 must hold; in Caffe
``pth``      torch.save, as a zip and as before      ``pickles`` the restricted unpickler under it
``t7``       Lua Torch's objects                     ``lua_resnet`` the nets of fb.resnet.torch among them
``state``    the state dict in what was saved        ``architectures`` what another state dict looks like
``tensors``  stored numbers, within their bounds     ``safetensors_file`` safetensors
``words``    what a file holds, in messages          ``torch_resnet`` the weights in the layers of Caffe's nets
``torch_reference`` the net as PyTorch computes it   ``verify`` Caffe's beside it
``resnet_conversion`` all of it together, from command line to files
``lite0_reference``, ``lite0_conversion``  the same two of Lite0
"""
