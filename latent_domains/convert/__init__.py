"""Converters of models: from Torch and the authors' fork into ours, from ours into stock layers and ONNX."""
