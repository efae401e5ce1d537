"""One module for each public dataset, where they are published and how many images they have."""
