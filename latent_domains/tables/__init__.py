"""The paper's tables: the content of each cell (``experiments/*.yaml``), its records, and how it is printed."""
