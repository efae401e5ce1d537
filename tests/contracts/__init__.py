"""What every program promises, tested once for all: tables of commands and of what is wrong with them.

``inputs`` makes valid inputs, each when it is asked for; ``commands`` lists a command of every program that makes
something of them; ``wrong`` is what may have happened to a file. The campaign (``tests/faults``) draws from the same.
"""
