"""Training of runs: ``caffe train``, and a process of ours that goes on from a snapshot."""
