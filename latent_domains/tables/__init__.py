"""The paper's tables: what each cell is (``experiments/*.yaml``), which records fill it, and how it is printed."""
