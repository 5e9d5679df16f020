"""The cache between processes: what is left is found; whatever is wrong with it is a miss and one warning."""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import random
import signal
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import fusegrad as fg
from fusegrad.compiler.artefacts import folder, versions
from fusegrad.compiler.artefacts.form import Artefact
from fusegrad.compiler.codegen import kernel_cache
from fusegrad.compiler.llvm import image, llvm_jit
from fusegrad.compiler.llvm.llvm_jit import Module, Statistics
from fusegrad.compiler.llvm.target import Target

POSIX = pytest.mark.skipif(os.name != "posix", reason="the system has no owners and modes of files")
SAMPLE = Artefact("machine code", {"symbols": ["f"]}, {"object": b"code" * 100})
KEY, OTHER = "0" * 64, "1" * 64


@pytest.fixture
def told() -> Iterator[list[warnings.WarningMessage]]:
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        yield found


def entry(cache: Path, key: str = KEY) -> Path:
    return cache / f"{folder._ENTRIES}{key}"


def answer(number: int) -> str:
    return f"define i64 @answer() {{\n  ret i64 {number}\n}}"


def called(text: str) -> int:
    (address,) = llvm_jit.compile_module(text, ["answer"])
    return int(ctypes.CFUNCTYPE(ctypes.c_int64)(address)())


# Entries.


def test_what_is_kept_is_found_under_each_key(cache: Path) -> None:
    assert folder.find(KEY) is None and not cache.exists(), "looking makes nothing"
    assert folder.keep([KEY, OTHER], SAMPLE)
    for key in (KEY, OTHER):
        found = folder.find(key)
        assert found is not None and found.parts == SAMPLE.parts and found.facts["keys"] == [KEY, OTHER]
    assert folder.state()[2:4] == (1, 2)
    assert not [name for name in os.listdir(cache) if name.startswith(folder._NEW)]


@POSIX
def test_folder_key_and_entries_are_the_users_alone(cache: Path) -> None:
    before = os.umask(0)
    try:
        folder.keep([KEY], SAMPLE)
    finally:
        os.umask(before)
    assert stat.S_IMODE(cache.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in cache.iterdir()} == {0o600}


def test_where_files_have_one_name_each_there_are_copies(monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*args: Any, **kwargs: Any) -> None:
        raise OSError(errno.EPERM, "no links here")

    monkeypatch.setattr(os, "link", refused)
    assert folder.keep([KEY, OTHER], SAMPLE) and folder.find(KEY) and folder.find(OTHER)


def _flipped(data: bytes, generator: random.Random) -> bytes:
    place = generator.randrange(len(data))
    return data[:place] + bytes([data[place] ^ 1 << generator.randrange(8)]) + data[place + 1 :]


DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "a bit is another": _flipped,
    "it is cut off": lambda data, generator: data[: generator.randrange(len(data))],
    "it goes on": lambda data, generator: data + generator.randbytes(1 + generator.randrange(9)),
    "something else": lambda data, generator: generator.randbytes(len(data)),
    "zeros, as after a crash": lambda data, generator: bytes(len(data)),
    "nothing": lambda data, generator: b"",
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damaged_entries_are_misses(
    cache: Path, told: list[warnings.WarningMessage], damage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = random.Random(damage)
    folder.keep([KEY], SAMPLE)
    sound = entry(cache).read_bytes()
    for _ in range(60):
        entry(cache).write_bytes(DAMAGES[damage](sound, generator))
        assert folder.find(KEY) is None
        assert not entry(cache).exists(), "what is damaged goes"
    assert len(told) == 1 and "no use: the entry 0000" in str(told[0].message)
    folder.keep([KEY], SAMPLE)
    assert folder.find(KEY) is not None
    # Without the MAC, the same table finds entries that are none.
    monkeypatch.setattr(folder.hmac, "compare_digest", lambda a, b: True)
    if damage == "a bit is another":
        found = []
        for _ in range(200):
            entry(cache).write_bytes(_flipped(sound, generator))
            found.append(folder.find(KEY))
        assert any(f is not None and f.parts != SAMPLE.parts for f in found)


def test_entries_of_others_and_of_other_keys_are_misses(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[warnings.WarningMessage]
) -> None:
    folder.keep([KEY], SAMPLE)
    entry(cache, OTHER).write_bytes(entry(cache).read_bytes())
    assert folder.find(OTHER) is None and folder.find(KEY) is not None
    foreign = tmp_path / "foreign"
    monkeypatch.setenv(folder.SETTING, str(foreign))
    folder.keep([KEY], SAMPLE)
    entry(cache).write_bytes(entry(foreign).read_bytes())
    monkeypatch.setenv(folder.SETTING, str(cache))
    assert folder.find(KEY) is None
    assert len(told) == 1 and "another entry's" in str(told[0].message)


@POSIX
@pytest.mark.parametrize("kind", ["link", "pipe", "folder"])
def test_what_is_no_file_is_a_miss(cache: Path, kind: str, told: list[warnings.WarningMessage]) -> None:
    folder.keep([OTHER], SAMPLE)
    if kind == "link":
        entry(cache).symlink_to(entry(cache, OTHER))
    elif kind == "pipe":
        os.mkfifo(entry(cache))
    else:
        entry(cache).mkdir()
    assert folder.find(KEY) is None and len(told) == 1


# Folders.


def _others_may_write(cache: Path) -> None:
    cache.chmod(0o770)


def _key_is_read_by_others(cache: Path) -> None:
    (cache / "key").chmod(0o640)


def _key_is_short(cache: Path) -> None:
    (cache / "key").write_bytes(b"short")


def _is_another_users(cache: Path) -> None:
    if os.geteuid():
        pytest.skip("only root may give files away")
    os.chown(cache, 12345, -1)


def _is_a_file(cache: Path) -> None:
    for path in cache.iterdir():
        path.unlink()
    cache.rmdir()
    cache.write_text("")


@POSIX
@pytest.mark.parametrize(
    "spoil", [_others_may_write, _key_is_read_by_others, _key_is_short, _is_another_users, _is_a_file]
)
def test_a_folder_that_cannot_be_trusted_is_not_used(
    cache: Path, spoil: Callable[[Path], None], told: list[warnings.WarningMessage]
) -> None:
    folder.keep([KEY], SAMPLE)
    spoil(cache)
    for _ in range(3):
        assert folder.find(KEY) is None and not folder.keep([OTHER], SAMPLE)
    assert len(told) == 1 and issubclass(told[0].category, folder.CacheWarning)
    assert folder.state().why_not and not folder.state().entries
    assert called(answer(41)) == 41


@pytest.mark.parametrize("problem", [errno.EROFS, errno.ENOSPC, errno.EACCES, errno.EMFILE, errno.EIO])
@pytest.mark.parametrize("call", ["open", "makedirs", "replace"])
def test_a_system_that_refuses_is_a_miss(
    call: str, problem: int, monkeypatch: pytest.MonkeyPatch, told: list[warnings.WarningMessage]
) -> None:
    def refused(*args: Any, **kwargs: Any) -> Any:
        raise OSError(problem, os.strerror(problem))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, refused)
        assert called(answer(42)) == 42
    assert len(told) == 1 and os.strerror(problem) in str(told[0].message)


def test_a_warning_that_is_an_error_is_none_of_the_program(cache: Path) -> None:
    cache.write_text("")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert folder.find(KEY) is None


# Room.


def test_what_was_used_longest_ago_goes_first(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = 1000
    monkeypatch.setenv(folder.BOUND_SETTING, str(10 * size))
    monkeypatch.setattr(folder, "_SHARE", 1000)
    keys = [f"{number:064}" for number in range(30)]
    for age, key in enumerate(keys):
        assert folder.keep([key], Artefact("k", {}, {"p": bytes(size - 200)}))
        os.utime(entry(cache, key), (1e9 + age, 1e9 + age))
        assert folder.find(keys[0]) is not None, "what is used stays"
        assert folder.state().size <= 11 * size
    assert folder.find(keys[-1]) is not None and folder.find(keys[1]) is None
    assert not folder.keep([KEY], Artefact("k", {}, {"p": bytes(11 * size)})), "too large to be kept"


def test_there_are_no_more_files_than_may_be(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folder, "MOST_NAMES", 20)
    for number in range(30):
        folder.keep([f"{number:064}", f"{number + 100:064}"], Artefact("k", {}, {}))
        assert folder.state().keys <= 20
    assert folder.find(f"{129:064}") is not None and folder.find(f"{100:064}") is None


def test_who_writes_looks_about_so_often_how_full_it_is() -> None:
    """Whoever it is: each process writes little."""
    assert all(folder._looks(folder.bound() // folder._SHARE, 1) for _ in range(100))
    asked = 64 * folder._SHARE
    found = sum(folder._looks(1, 1) for _ in range(asked))
    wanted = asked * folder._SHARE / folder.MOST_NAMES
    assert 0.5 * wanted < found < 2 * wanted  # beyond seven times the spread that chance has


def test_what_was_never_finished_goes(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.keep([KEY], SAMPLE)
    abandoned, new = cache / f"{folder._NEW}1", cache / f"{folder._NEW}2"
    abandoned.write_bytes(b"half")
    new.write_bytes(b"half")
    os.utime(abandoned, (1e9, 1e9))
    monkeypatch.setattr(folder, "_SHARE", 1 << 40)
    folder.keep([OTHER], SAMPLE)
    assert not abandoned.exists() and new.exists()


# Processes.


def _children(count: int, work: Callable[[int], None]) -> list[int]:
    """How processes end that all do this at once."""
    children = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            try:
                work(number)
            except BaseException:
                os._exit(1)
            os._exit(0)
        children.append(child)
    return [os.waitpid(child, 0)[1] for child in children]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_64_processes_share_a_cache(cache: Path) -> None:
    """All begin without a folder and without a key; entries are always whole and right."""
    warnings.simplefilter("ignore", folder.CacheWarning)

    def work(number: int) -> None:
        generator = random.Random(number)
        for _ in range(15):
            value = generator.randrange(8)
            key = f"{value:064}"
            if generator.random() < 0.5:
                assert folder.keep(
                    [key, f"{value + 100:064}"], Artefact("k", {}, {"p": bytes([value]) * 5000})
                )
            found = folder.find(key)
            assert found is None or found.parts["p"] == bytes([value]) * 5000
        assert not folder._told, "one of them has met something that it could not read"

    assert set(_children(64, work)) == {0}
    assert folder.state().keys == 16
    assert all(folder.find(f"{value:064}") for value in range(8))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("call", ["replace", "link", "utime"])
def test_a_process_killed_while_it_writes_leaves_nothing_or_all(
    call: str, monkeypatch: pytest.MonkeyPatch, told: list[warnings.WarningMessage]
) -> None:
    folder.keep([OTHER], SAMPLE)

    def killed(number: int) -> None:
        setattr(os, call, lambda *args, **kwargs: os.kill(os.getpid(), signal.SIGKILL))
        folder.keep([KEY, OTHER], SAMPLE)
        folder.find(KEY)

    assert _children(1, killed) == [signal.SIGKILL]
    assert folder.find(KEY) is None or folder.find(KEY).parts == SAMPLE.parts  # type: ignore[union-attr]
    assert folder.keep([KEY], SAMPLE) and folder.find(KEY) and not told


# Machine code.


def test_machine_code_is_found_and_answers_alike() -> None:
    before = Statistics.found
    assert called(answer(43)) == 43 and Statistics.found == before
    assert called(answer(43)) == 43 and Statistics.found == before + 1
    assert called(answer(44)) == 44 and Statistics.found == before + 1


@pytest.mark.parametrize("symbols", itertools.permutations(["begin", "an_end", "middle"]))
def test_addresses_come_in_the_order_in_which_they_are_asked_for(symbols: tuple[str, ...]) -> None:
    """Who asks for several takes them apart by their order; an entry of the cache has another."""
    numbers = {"begin": 1, "an_end": 2, "middle": 3}
    text = "\n".join(f"define i32 @{name}() {{ ret i32 {number} }}" for name, number in numbers.items())
    for _ in range(2):
        found = Module(text, symbols).addresses()
        assert [*found] == [*symbols]
        assert all(ctypes.CFUNCTYPE(ctypes.c_int32)(a)() == numbers[name] for name, a in found.items())


def test_an_entry_without_a_function_that_is_asked_for_is_a_miss() -> None:
    text = "define i32 @one() { ret i32 1 }\ndefine i32 @two() { ret i32 2 }"
    Module(text, ["one"]).addresses()
    before = Statistics.found
    assert Module(text, ["one"]).addresses() and Statistics.found == before + 1
    assert [*Module(text, ["one", "two"]).addresses()] == ["one", "two"] and Statistics.found == before + 1


# What machine code depends on beside its text, in the order of `llvm_jit._facts`.
FACTS = ["version of LLVM", "system", "layout of data", "instructions", "recipe"]


_facts = llvm_jit._facts


def _found_although(place: int, forgotten: int | None, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether machine code is found in a process in which one fact is another, where the key forgets one."""
    number = 1000 + 10 * place + (9 if forgotten is None else forgotten)
    before = Statistics.found
    for changed in (None, place):

        def facts(changed: int | None = changed) -> list[Any]:
            found = _facts()
            if changed is not None:
                found[changed] = "another"
            return [fact for place, fact in enumerate(found) if place != forgotten]

        with monkeypatch.context() as patch:
            patch.setattr(llvm_jit, "_facts", facts)
            llvm_jit._maker.cache_clear()
            assert called(answer(number)) == number
        llvm_jit._maker.cache_clear()
    return Statistics.found > before


def test_nothing_is_found_that_another_machine_or_maker_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    assert len(_facts()) == len(FACTS)
    assert not any(_found_although(place, None, monkeypatch) for place in range(len(FACTS)))
    # A key that forgets one of them is seen by this table.
    for hole in range(len(FACTS)):
        found = [_found_although(place, hole, monkeypatch) for place in range(len(FACTS))]
        assert found == [place == hole for place in range(len(FACTS))]


SAID: dict[str, Callable[[pytest.MonkeyPatch], object]] = {
    "the source": lambda patch: patch.setattr(versions, "_known", ["another"]),
    "the host": lambda patch: patch.setattr(llvm_jit, "host", lambda: Target(16)),
    "the maker": lambda patch: patch.setattr(llvm_jit, "_maker", lambda: b"another"),
}


@pytest.mark.parametrize("fact", SAID)
def test_a_text_is_found_before_it_is_written_by_all_that_it_is_made_of(
    fact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = llvm_jit.said_key("a", 1)
    assert before and before == llvm_jit.said_key("a", 1) != llvm_jit.said_key("a", 2)
    SAID[fact](monkeypatch)
    assert llvm_jit.said_key("a", 1) != before


def test_without_a_cache_nothing_is_left(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(folder.SETTING, "0")
    assert called(answer(46)) == 46 and called(answer(46)) == 46
    assert not cache.exists() and folder.state().why_not


# Programs.


def _in_a_new_process(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A function's results and what is told of it, as if no kernel were known in this process."""
    monkeypatch.setattr(kernel_cache, "_modules", {})
    monkeypatch.setattr(llvm_jit, "_found", {})

    @fg.jit
    def function(x: fg.Tensor, y: fg.Tensor) -> tuple[fg.Tensor, fg.Tensor]:
        return (fg.tanh(x) * y).sum(), fg.softmax(fg.exp(x) @ fg.sin(y).T, 1)

    fg.manual_seed(0)
    fg.use_deterministic_algorithms(True)  # BLAS may divide a product in another way each time
    try:
        total, shares = function(fg.randn(300, 11), fg.randn(300, 11))
    finally:
        fg.use_deterministic_algorithms(False)
    return (total.numpy().tobytes(), shares.numpy().tobytes()), function.explain()


def test_explain_tells_hits_and_misses_and_why(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, explained = _in_a_new_process(monkeypatch)
    told = explained.as_dict()["machine_code"]
    assert told["found"] == 0 and told["compiled"] > 1 and told["cache"] == str(cache)
    assert f"{told['compiled']} compiled, since no earlier process had" in str(explained)
    second, explained = _in_a_new_process(monkeypatch)
    assert explained.as_dict()["machine_code"] == {
        **told,
        "found": told["compiled"],
        "compiled": 0,
        "why_compiled": "",
    }
    assert f"machine code of {told['compiled']} kernels found in {cache}" in str(explained)
    assert first == second
    with kernel_cache.cold():
        third, explained = _in_a_new_process(monkeypatch)
        assert explained.as_dict()["machine_code"]["found"] == 0, "who times first calls finds nothing"
    assert first == third


PROGRAM = """
import sys
import fusegrad as fg, fusegrad.compiler.llvm.llvm_jit as j
fg.use_deterministic_algorithms(True)
model = fg.nn.Sequential(fg.nn.Linear(64, 33), fg.nn.Tanh(), fg.nn.Linear(33, 5))
fg.manual_seed(1)
for p in model.parameters():
    p.data = fg.randn(p.shape)
step = fg.jit(lambda x: fg.nn.functional.cross_entropy(model(x), fg.arange(40) % 5))
for _ in range(3):
    loss = step(fg.randn(40, 64)); loss.backward()
print(float(loss).hex(), [float(p.grad.sum()).hex() for p in model.parameters()])
print(j.Statistics.modules, j.Statistics.found)
print(not {"numba", "llvmlite"} & sys.modules.keys())
"""


def test_another_process_compiles_nothing_and_answers_with_the_same_bits(tmp_path: Path) -> None:
    file = tmp_path / "program.py"  # of what has no source nothing is recorded
    file.write_text(PROGRAM)

    def run() -> list[str]:
        done = subprocess.run([sys.executable, str(file)], capture_output=True, text=True, check=True)
        assert not done.stderr
        return done.stdout.splitlines()

    (cold, compiled, _), (warm, found, without_llvm) = run(), run()
    assert cold == warm
    assert without_llvm == str(image.are_used()), "what is found needs neither llvmlite nor Numba"
    assert compiled.split()[1] == "0" and {*found.split()} == {compiled.split()[0]} != {"0"}
