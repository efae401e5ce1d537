"""Runs the CUDA C of ``caffe_layers`` on the CPU, thread by thread, with checks that no GPU makes."""
