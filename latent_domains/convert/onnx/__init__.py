"""Nets of stock Caffe layers as ONNX graphs."""
