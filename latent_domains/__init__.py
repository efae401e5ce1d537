"""The library behind the programs of tools/. Arrows run downwards only: `make lint` checks the floors."""
