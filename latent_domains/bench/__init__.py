"""How fast the layers, the nets and the building of LMDBs are, and what memory they take."""
