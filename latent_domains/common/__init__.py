"""What every package needs: errors and exit codes, files, arguments, processes, logs."""
