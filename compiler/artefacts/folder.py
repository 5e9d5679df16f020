"""The cache's folder: artefacts that processes leave for later ones, by keys made of what they depend on.

`FUSEGRAD_CACHE` names it (0: there is none); otherwise, or with 1, it is where the system keeps caches.
Each entry is a file of its own, written beside its place and then renamed, so that a reader sees all of it or
nothing; an artefact of several keys is one file with several names. In front of each stands its MAC, by a
key that lies in the folder: what is damaged, or was put there by somebody without that key, is no entry.
The folder must be the user's or root's and writable by nobody else, since its code is run.

Nothing here fails: what cannot be read or written is not there, and the first time that this is so in a
process, a warning says why.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from fusegrad.compiler.artefacts.form import Artefact, Malformed, packed, unpacked

SETTING = "FUSEGRAD_CACHE"
BOUND_SETTING = "FUSEGRAD_CACHE_BYTES"
USUAL_BOUND = 1 << 29  # bytes of all entries
LARGEST = 1 << 27  # bytes of one
_AS_IT_IS = getattr(os, "O_BINARY", 0)
_KEY_FILE, _ENTRIES, _NEW = "key", "code-", "new-"
_MAC = 32
MOST_NAMES = 1 << 14  # of all entries, since to see how full the folder is takes time for each
_SHARE = 256  # times that somebody looks whether the folder is full, while so much is written as it may hold
_ABANDONED = 3600.0  # seconds after which a file that is still being written never will be


class CacheWarning(UserWarning):
    """The cache between processes cannot be used; programs run as they do without it."""


class Unusable(Exception):
    """Why a folder is not read or written."""


def place() -> str:
    """The path of the folder; empty where there is to be none."""
    asked = os.environ.get(SETTING)
    if asked is not None and asked.strip() != "1":
        return "" if asked.strip() in ("", "0") else os.path.abspath(os.path.expanduser(asked))
    from platformdirs import user_cache_dir

    return user_cache_dir("fusegrad", appauthor=False)


def bound() -> int:
    """How many bytes all entries may have."""
    asked = os.environ.get(BOUND_SETTING, "").strip()
    return int(asked) if asked.isdecimal() else USUAL_BOUND


# Problems: told once, and never the program's.

_told = False


def _tell(problem: str) -> None:
    global _told
    if not _told:
        _told = True
        with contextlib.suppress(Warning):  # where warnings are errors it is still no error of the program
            warnings.warn(
                f"fusegrad's cache of machine code is of no use: {problem}; what it lacks is compiled. "
                f"Set {SETTING} to another folder, or to 0 for none.",
                CacheWarning,
                stacklevel=2,
            )


class _Open:
    """The folder while it is open: what happens in it happens in the one that was checked."""

    def __init__(self, path: str, create: bool) -> None:
        """Raises Unusable, and OSError where there is none or the system refuses."""
        if create:
            os.makedirs(path, 0o700, exist_ok=True)
        self.path = path
        # Where the system has no files relative to a folder (Windows) it has no others' either, as far as one
        # can ask it.
        self.fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY) if os.open in os.supports_dir_fd else None
        try:
            if self.fd is not None:
                _check(os.fstat(self.fd), 0o022, f"{path} is")
        except Unusable:
            self.close()
            raise

    def close(self) -> None:
        if self.fd is not None:
            os.close(self.fd)

    def name(self, name: str) -> str:
        return name if self.fd is not None else os.path.join(self.path, name)

    def read(self, name: str, most: int) -> tuple[bytes, os.stat_result]:
        """What a file holds. Raises OSError, and Unusable for what is no plain file or too large."""
        # What is a link, or a pipe that nobody writes to, is no entry.
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | _AS_IT_IS
        with open(os.open(self.name(name), flags, dir_fd=self.fd), "rb") as file:
            found = os.fstat(file.fileno())
            if not stat.S_ISREG(found.st_mode) or found.st_size > most:
                raise Unusable(f"{name} in {self.path} is no file of such a cache")
            return file.read(), found

    def write(self, name: str, data: bytes, keep: bool = False) -> None:
        """Put a file there, whole. keep: whether what has its name already stays."""
        new = f"{_NEW}{secrets.token_hex(8)}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | _AS_IT_IS
        try:
            with open(os.open(self.name(new), flags, 0o600, dir_fd=self.fd), "wb") as file:
                file.write(data)
            if not (keep and self.link(new, name)):
                os.replace(self.name(new), self.name(name), src_dir_fd=self.fd, dst_dir_fd=self.fd)
        finally:
            with contextlib.suppress(OSError):
                self.remove(new)

    def link(self, name: str, other: str) -> bool:
        """Give a file a further name, unless that is taken; whether the name is there now."""
        try:
            os.link(self.name(name), self.name(other), src_dir_fd=self.fd, dst_dir_fd=self.fd)
        except FileExistsError:
            pass
        except OSError:  # there are file systems without
            return False
        return True

    def remove(self, name: str) -> None:
        os.unlink(self.name(name), dir_fd=self.fd)

    def touch(self, name: str) -> None:
        with contextlib.suppress(OSError):
            os.utime(self.name(name), dir_fd=self.fd)

    def files(self) -> list[tuple[str, os.stat_result]]:
        """The names in it and what the system says of them."""
        found = []
        with os.scandir(self.fd if self.fd is not None else self.path) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # another process took it away
                    found.append((entry.name, entry.stat(follow_symlinks=False)))
        return found

    def key(self, create: bool) -> bytes:
        """The key of the MACs. Raises Unusable, and OSError where there is none."""
        with contextlib.suppress(FileNotFoundError):
            return self._known_key()
        if not create:
            raise FileNotFoundError(f"{self.path} has no {_KEY_FILE}")
        # Of several processes the first one's counts.
        self.write(_KEY_FILE, secrets.token_bytes(_MAC), keep=True)
        return self._known_key()

    def _known_key(self) -> bytes:
        key, found = self.read(_KEY_FILE, _MAC)
        if self.fd is not None:
            _check(found, 0o077, f"{_KEY_FILE} in {self.path} is")
        if len(key) != _MAC:
            raise Unusable(f"{_KEY_FILE} in {self.path} is damaged: `fusegrad cache clear` takes it away")
        return key


def _check(found: os.stat_result, others: int, what: str) -> None:
    """Whether a file may be trusted: nobody else's, and not open to others. Raises Unusable."""
    if found.st_uid not in (os.geteuid(), 0):
        raise Unusable(f"{what} another user's")
    if found.st_mode & others:
        may = "writable" if others == 0o022 else "readable or writable"
        raise Unusable(f"{what} {may} by others (mode {stat.S_IMODE(found.st_mode):o})")


@contextlib.contextmanager
def _opened(create: bool) -> Iterator[_Open | None]:
    """The folder, for as long as one looks into it; None where there is to be none, or it cannot be used."""
    path = place()
    if not path:
        yield None
        return
    folder = _Open(path, create)
    try:
        yield folder
    finally:
        folder.close()


# What others do: find, keep.


def find(key: str) -> Artefact | None:
    """The artefact of a key; None where there is none that is sound."""
    try:
        with _opened(create=False) as folder:
            if folder is None:
                return None
            data, _ = folder.read(_ENTRIES + key, LARGEST)
            artefact = _sound(data, key, folder)
            folder.touch(_ENTRIES + key)
            return artefact
    except FileNotFoundError:
        return None
    except (OSError, ValueError, Unusable) as error:
        _tell(_why(error))
        return None


def _sound(data: bytes, key: str, folder: _Open) -> Artefact:
    """An entry's artefact. Raises Unusable for one that is damaged, or another's; it goes."""
    mac, told = data[:_MAC], content(data)
    why = "it is damaged, or was written by somebody else"
    if hmac.compare_digest(mac, _mac(folder.key(create=False), told)):
        try:
            artefact = unpacked(told)
            if key in artefact.facts.get("keys", ()):
                return artefact
            why = "it is another entry's"
        except Malformed as error:
            why = str(error)
    with contextlib.suppress(OSError):
        folder.remove(_ENTRIES + key)
    raise Unusable(f"the entry {key[:12]} in {folder.path} was taken away, since {why}")


def content(entry: bytes) -> bytes:
    """An entry without its MAC."""
    return entry[_MAC:]


def _mac(key: bytes, told: bytes) -> bytes:
    return hashlib.blake2b(told, key=key, digest_size=_MAC).digest()


def contents() -> Iterator[bytes]:
    """All sound entries without their MACs, those that were used last first. Raises OSError and Unusable."""
    with _opened(create=False) as folder:
        if folder is None:
            return
        key, entries = folder.key(create=False), _by_file(folder.files())
        for (name, *_), _ in sorted(entries, key=lambda entry: -entry[1].st_mtime):
            with contextlib.suppress(FileNotFoundError):  # another process took it away
                data, _ = folder.read(name, LARGEST)
                if hmac.compare_digest(data[:_MAC], _mac(key, content(data))):
                    yield content(data)


def signed(told: bytes) -> bytes:
    """Bytes with the folder's MAC in front. Raises OSError and Unusable."""
    with _opened(create=True) as folder:
        if folder is None:
            raise Unusable(f"{SETTING} is 0")
        return _mac(folder.key(create=True), told) + told


def is_signed(data: bytes) -> bool:
    """Whether bytes have the folder's MAC in front. Raises OSError and Unusable."""
    try:
        with _opened(create=False) as folder:
            key = folder.key(create=False) if folder is not None else b""
    except FileNotFoundError:
        return False
    return bool(key) and hmac.compare_digest(data[:_MAC], _mac(key, content(data)))


def keep(keys: Sequence[str], artefact: Artefact) -> bool:
    """Leave an artefact under keys, for whoever asks for one of them. Gives whether it is there now."""
    told = Artefact(artefact.kind, {**artefact.facts, "keys": list(keys)}, artefact.parts)
    data = packed(told)
    if len(data) + _MAC > min(LARGEST, bound()):
        return False
    try:
        with _opened(create=True) as folder:
            if folder is None:
                return False
            data = _mac(folder.key(create=True), data) + data
            first, *others = (_ENTRIES + key for key in keys)
            folder.write(first, data)
            for name in others:
                with contextlib.suppress(FileNotFoundError):
                    folder.remove(name)
                if not folder.link(first, name):
                    folder.write(name, data)
            if _looks(len(data), len(keys)):
                _make_room(folder)
            return True
    except (OSError, ValueError, Unusable) as error:
        _tell(_why(error))
        return False


def _why(error: Exception) -> str:
    """What is wrong, in words."""
    if isinstance(error, OSError):
        return f"{place()}: {error.strerror or error}"
    return str(error)


# How much there is.


def _looks(size: int, names: int) -> bool:
    """Whether who has written so much is to look how full the folder is. That is drawn: processes know
    nothing of each other, and most write little.
    """
    part = max(size / bound(), names / MOST_NAMES) * _SHARE
    return secrets.randbelow(1 << 30) < part * (1 << 30)


def _make_room(folder: _Open) -> None:
    """Take away what was used longest ago, where there is more than may be."""
    files = folder.files()
    for name, found in files:
        if name.startswith(_NEW) and time.time() - found.st_mtime > _ABANDONED:
            with contextlib.suppress(OSError):
                folder.remove(name)
    entries = _by_file(files)
    size, count = sum(found.st_size for _, found in entries), sum(len(names) for names, _ in entries)
    if size <= bound() and count <= MOST_NAMES:
        return
    for names, found in sorted(entries, key=lambda entry: entry[1].st_mtime):
        if size <= bound() * 3 // 4 and count <= MOST_NAMES * 3 // 4:
            break
        for name in names:
            with contextlib.suppress(OSError):
                folder.remove(name)
        size, count = size - found.st_size, count - len(names)


def _by_file(files: Sequence[tuple[str, os.stat_result]]) -> list[tuple[list[str], os.stat_result]]:
    """The entries, each with all the names of its file."""
    found: dict[object, tuple[list[str], os.stat_result]] = {}
    for name, status in files:
        if name.startswith(_ENTRIES):
            file = (status.st_dev, status.st_ino) if status.st_ino else name
            found.setdefault(file, ([], status))[0].append(name)
    return list(found.values())


class State(NamedTuple):
    """What there is in the cache.

    path: of its folder; empty where there is to be none. why_not: why nothing is found in it; empty where
    something may be. entries: how many artefacts; keys: under how many keys; size: in bytes; most: its bound.
    """

    path: str
    why_not: str
    entries: int
    keys: int
    size: int
    most: int


def state() -> State:
    """How the cache is now; nothing is made for it."""
    path = place()
    if not path:
        return State("", f"{SETTING} is 0", 0, 0, 0, bound())
    try:
        with _opened(create=False) as folder:
            assert folder is not None
            entries = _by_file(folder.files())
            why_not = ""
            try:
                folder.key(create=False)
            except FileNotFoundError:
                why_not = "nothing has been kept yet"
    except FileNotFoundError:
        return State(path, "nothing has been kept yet", 0, 0, 0, bound())
    except (OSError, ValueError, Unusable) as error:
        return State(path, _why(error), 0, 0, 0, bound())
    keys, size = sum(len(names) for names, _ in entries), sum(found.st_size for _, found in entries)
    return State(path, why_not, len(entries), keys, size, bound())


def clear() -> int:
    """Take all entries away, and the key. Gives how many names of files went. Raises OSError and Unusable."""
    try:
        with _opened(create=False) as folder:
            if folder is None:
                return 0
            names = [n for n, _ in folder.files() if n == _KEY_FILE or n.startswith((_ENTRIES, _NEW))]
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    folder.remove(name)
            return sum(name.startswith(_ENTRIES) for name in names)
    except FileNotFoundError:
        return 0
