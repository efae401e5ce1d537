"""A report of runs as one HTML file that loads nothing: pictures first, numbers beside them."""
