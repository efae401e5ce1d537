"""Folding a trained net for tests into stock layers of Caffe: what is done to its graph, and the proof."""
