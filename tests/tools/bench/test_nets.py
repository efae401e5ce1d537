from tests.programs import child


def test_a_dataset_with_a_test_split():
    done = child("bench.nets", "demo", "--rounds", 1)
    assert done.returncode == 0, done.stderr
    rows = [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in done.stdout.splitlines()
        if line.startswith("| demo")
    ]
    assert [row[1:3] for row in rows] == [["source only", "128"], ["DIAL", "192"], ["mDA, k=2", "192"]]
    assert rows[0][4] == "1.00" and all(row[5].endswith(" GiB") for row in rows)
