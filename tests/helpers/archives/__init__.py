"""Files of PyTorch's that a test changes."""

from __future__ import annotations

import io
import zipfile


def repack(content, changes=None, extra=(), compression=zipfile.ZIP_STORED):
    """An archive with members changed or added, and sums that fit."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w", compression) as new:
        for member in old.infolist():
            root, _, name = member.filename.partition("/")
            change = (changes or {}).get(name, lambda content: content)
            new.writestr(f"{root}/{name}", change(old.read(member)))
        for name, text in extra:
            new.writestr(name, text)
    return out.getvalue()
