"""Nets of the authors' fork of Caffe: how they are read, what is recognised in them, and our nets in their place.

``text``       prototxt with template fields, as Caffe's own messages
``reference``  the fork's two layers, from their formulas, to compare with
``structure``  rows, and the layers that do the work of one mDA layer
``names``      our generator's names for the same roles  ``rewrite``   the graph with our layers in it
``deploy``     from an image to its class scores         ``weights``   the fork's blobs and ours
``verify``     both sides on the same inputs             ``converter``  all of it together, with weights and files
"""
