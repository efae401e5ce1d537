"""Nets of the authors' fork of Caffe: how they are read, what is recognised, and our nets.

``reference``  the fork's two layers, from their formulas, to compare with
``structure``  prototxt with template fields; rows, and the layers that do the work of one mDA layer
``weights``    our generator's names for the same roles, the fork's blobs and ours
``rewrite``    the graph with our layers in it
``verify``     from an image to its class scores: both sides on the same inputs
``converter``  all of it together, with weights and files
"""
