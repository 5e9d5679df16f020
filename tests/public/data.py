"""The files that scripts look for in the folder that they run in: words, names, and a graph of papers."""

from __future__ import annotations

import io
import string
import tarfile
from pathlib import Path

import numpy as np

PAPERS, WORDS, SUBJECTS = 2708, 1433, 7  # as many as Cora has


def prepare(folder: Path) -> None:
    """Write what scripts read."""
    draw = np.random.default_rng(0)
    vocabulary = ["".join(map(chr, draw.integers(97, 123, 1 + n % 8))) for n in range(500)]

    def text(lines: int) -> str:
        return "".join(" ".join(draw.choice(vocabulary, 12)) + "\n" for _ in range(lines))

    for place in ("words", "data"):
        (folder / place).mkdir()
        for part, lines in (("train", 2000), ("valid", 200), ("test", 200)):
            (folder / place / f"{part}.txt").write_text(text(lines))
    (folder / "input.txt").write_text(string.printable + text(1000))
    (folder / "names.txt").write_text("\n".join(word * 2 for word in vocabulary))
    (folder / "images").mkdir()


def cora() -> bytes:
    """An archive like that of the Cora graph, of papers drawn at random."""
    draw = np.random.default_rng(0)
    content = "".join(
        "\t".join([str(paper), *map(str, draw.integers(0, 100, WORDS) // 99), f"S{paper % SUBJECTS}"]) + "\n"
        for paper in range(PAPERS)
    )
    cites = "".join(f"{a}\t{b}\n" for a, b in draw.integers(0, PAPERS, (2 * PAPERS, 2)))
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, lines in (("cora.content", content), ("cora.cites", cites)):
            entry = tarfile.TarInfo(f"cora/{name}")
            entry.size = len(lines)
            archive.addfile(entry, io.BytesIO(lines.encode()))
    return packed.getvalue()
