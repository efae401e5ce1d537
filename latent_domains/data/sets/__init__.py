"""One module for each public dataset, with where they are published and how many images they have."""
