"""LMDBs of images as Caffe reads them: built, joined, read and downloaded."""
