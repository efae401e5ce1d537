"""Networks that make features of pictures, and the LMDBs that hold what they made."""
