"""A campaign of faults: kills, full disks, closed pipes, signals, races and damaged files against every program.

    python -m tests.faults --seed 0 --cases 1000       (make faults)
    python -m tests.faults --seed 0 --cases 1000 --only 17

``inputs`` makes valid inputs once; ``programs`` lists what is run on copies of them, ``files`` what happens to a file,
``conditions`` what happens to a process; ``case`` makes one of each pair happen and judges what came of it.
"""
