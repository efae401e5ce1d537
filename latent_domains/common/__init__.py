"""Tools for every package: errors and exit codes, files, arguments, processes, logs."""
