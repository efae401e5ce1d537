"""A campaign of faults against the commands of ``tests/contracts``, in processes of their own.

python -m tests.faults --seed 0 --cases 200       (make faults)
python -m tests.faults --seed 0 --cases 200 --only 17
"""
