"""Training of runs, by ``caffe train`` or, from a snapshot on, by a process of ours."""
