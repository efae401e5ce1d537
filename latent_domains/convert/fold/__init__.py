"""Fold a trained net for tests into stock layers of Caffe: the changes of its graph, and the proof."""
