"""Which domain each picture is of. Each way to tell it is a module with ``assign(images, k, seed) -> w``.

w (n×k) has the probabilities of the k domains for each of n pictures; a row of zeros says that nothing is known.
"""
