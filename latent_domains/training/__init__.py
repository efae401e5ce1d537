"""Training of runs, by ``caffe train`` or, from a snapshot, by our own process."""
