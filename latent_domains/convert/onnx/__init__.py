"""Nets of stock Caffe layers as ONNX graphs: one module for each kind of layer."""
