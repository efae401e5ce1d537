"""Models from Torch (``torch``) and the authors' fork (``fork``), into stock layers (``fold``) and to ONNX (``onnx``)."""
