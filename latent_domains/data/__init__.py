"""LMDBs of images as Caffe reads them: build, join, read and download them."""
