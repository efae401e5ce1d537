"""Changes of a text by its lines and words: a parser often takes it still, as it seldom does after changes of bytes."""

import re
from random import Random

_WORDS = re.compile(rb'"[^"\n]*"|[\w.+-]+|\s+|.', re.DOTALL)

_ODD = (
    *rb"0 -1 2147483648 9999999999999999999 1e999 -1e-320 nan .5 0x10 true null [] {} [1,2] {a:1} .. / '".split(),
    *(b'""', b'"\\ud800"', "é".encode()),
)


def changed(text: bytes, random: Random) -> bytes:
    """``text`` after one to three changes: lines left out or copied, a word replaced by an odd one or another."""
    for _ in range(random.randint(1, 3)):
        lines = text.splitlines(keepends=True)
        if random.random() < 0.5 and len(lines) > 1:
            start, place = random.randrange(len(lines)), random.randrange(len(lines))
            end = start + random.choice((1, 1, 1, 2, 4, 16))
            if random.random() < 0.5:
                lines[place:place] = lines[start:end]
            else:
                del lines[start:end]
            text = b"".join(lines)
        elif words := _WORDS.findall(text):
            place = random.choice([at for at, word in enumerate(words) if not word.isspace()] or [0])
            words[place] = random.choice(_ODD if random.random() < 0.5 else words)
            text = b"".join(words)
    return text
