"""How fast layers, nets and the building of LMDBs are."""
