"""Folding a trained net for tests into stock layers of Caffe: the graph, what is done to it, and the proof."""
