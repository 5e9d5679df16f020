"""What programs with effects find outside, as source text, which each runs in a namespace of its own."""

HEAD = """
import array, collections, contextvars, dataclasses, enum, functools, gc, io, itertools, logging, operator
import random, signal, sys, threading, types, warnings, weakref
import numpy as np
import fusegrad as fg
from fusegrad import nn

log, G, L = [], 0, None

class Stats:
    n, last = 0, None

class Sub(Stats):
    pass

class Meta(type):
    def __setattr__(cls, name, value):
        log.append(name)
        type.__setattr__(cls, name, value)

class WithMeta(metaclass=Meta):
    n, last = 0, None

class Slots:
    __slots__ = ("n", "last")
    def __init__(self):
        self.n, self.last = 0, None

class Own:
    def __init__(self):
        self.n, self.last = 0, None

class Foreign(Own):
    def __setattr__(self, name, value):
        log.append(name)
        object.__setattr__(self, name, value)

class Looked(Own):
    def __getattribute__(self, name):
        if name != "__class__":  # for which the tracer asks, too
            log.append(name)
        return object.__getattribute__(self, name)

class Missed:
    def __getattr__(self, name):
        log.append(name)
        return 1.0

class WithProperty(Own):
    def __init__(self):
        self._n, self._last = 0, None
    @property
    def n(self):
        return self._n
    @n.setter
    def n(self, value):
        log.append("set")
        self._n = value
    @property
    def last(self):
        return self._last
    @last.setter
    def last(self, value):
        self._n += 2
        self._last = value

class Field:
    def __init__(self, first):
        self.value = first
    def __get__(self, owner, kind):
        return self.value
    def __set__(self, owner, value):
        log.append("set")
        self.value = value

class WithField:
    n, last = Field(0), Field(None)

class Borg:
    shared = {"n": 0, "last": None}
    def __init__(self):
        self.__dict__ = Borg.shared

@dataclasses.dataclass
class Data:
    n: int = 0
    last: object = None

@dataclasses.dataclass(frozen=True)
class Frozen:
    n: int = 0

class Mood(enum.Enum):
    GOOD = 1

class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.n, self.last = 0, None
        self.norm = nn.BatchNorm1d(3, dtype=fg.float64)
        self.drop = nn.Dropout(0.5)
        self.register_buffer("count", fg.zeros(3, dtype=fg.float64))

class Called:
    def __init__(self):
        self.n = 0
    def __bool__(self):
        self.n += 1
        return True
    def __eq__(self, other):
        Stats.n += 1
        return True
    def __call__(self, h):
        Stats.n += 1
        return h
    def __len__(self):
        log.append("len")
        return 3
    def __enter__(self):
        log.append("enter")
    def __exit__(self, *args):
        log.append("exit")
    def __index__(self):
        log.append("index")
        return 1
    def __add__(self, other):
        log.append("add")
        return other
    def __iadd__(self, other):
        log.append("iadd")
        return self
    def __iter__(self):
        log.append("iter")
        return iter((1, 2))
    def __contains__(self, item):
        log.append("contains")
        return True
    def __getitem__(self, key):
        log.append("getitem")
        return 0
    def __setitem__(self, key, value):
        log.append("setitem")
    def __delitem__(self, key):
        log.append("delitem")
    __hash__ = object.__hash__

class Mapped(dict):
    def __setitem__(self, key, value):
        log.append(key)
        dict.__setitem__(self, key, value)

class Dies:
    def __del__(self):
        log.append("dies")

class Tag(fg.Tensor):
    pass

class Handler(logging.Handler):
    def emit(self, record):
        log.append(record.getMessage())

def tally(): pass
tally.n, tally.last = 0, None
slots, own, foreign, looked = Slots(), Own(), Foreign(), Looked()
missed, prop, desc = Missed(), WithProperty(), WithField()
borg, data, frozen, cell, called = Borg(), Data(), Frozen(), Cell(), Called()
space = types.SimpleNamespace(n=0, last=None)
local, module, partial = threading.local(), types.ModuleType("made"), functools.partial(tally)
error, kept = ValueError(), fg.ones(3, dtype=fg.float64)
parameter = fg.ones(3, dtype=fg.float64, requires_grad=True)
for place in (local, module, partial, error, kept, Mood.GOOD):
    place.n, place.last = 0, None
table, items = {"n": 0, "last": None}, [0, None]
queue, mapped = collections.deque([0, None]), Mapped(n=0, last=None)
ordered, given, counter = collections.OrderedDict(n=0), collections.defaultdict(int), collections.Counter()
codes, numbers, members = array.array("q", [0]), np.zeros(3), set()
memory = memoryview(codes)
nested = {"own": own, "items": [Own()]}
stream, endless = iter(range(10 ** 6)), itertools.count()
draws, generator = random.Random(3), np.random.default_rng(3)
text, logger, handler = io.StringIO(), logging.Logger("made"), Handler()
logger.addHandler(handler)
variable = contextvars.ContextVar("variable", default=0)
context = contextvars.copy_context()
lock = threading.Lock()
optimizer = fg.optim.SGD([parameter], lr=0.1)

def arrives():
    before = signal.signal(signal.SIGUSR1, lambda *_: log.append("signal"))
    signal.raise_signal(signal.SIGUSR1)
    signal.signal(signal.SIGUSR1, before)

def limits():
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(before + 1)
    log.append(sys.getrecursionlimit() - before)
    sys.setrecursionlimit(before)

def produce():
    global L
    while True:
        log.append("produced")
        yield 1.0
produced = produce()

def sets_global():
    global G
    G += 1

def sets_global_to(h):
    global L
    L = h

def cells():
    m = 0
    def more():
        nonlocal m
        m += 1
        return m
    return more, lambda: m
more, m_now = cells()

def spoilt(a=[0]):
    a[0] += 1
    return a[0]

@functools.lru_cache(None)
def cached(n):
    return 1.0

def catches(h):
    try:
        raise KeyError("made")
    except KeyError as found:
        log.append(str(found))

def enters(h):
    with called:
        return h * 1.0

def warns():
    warnings.warn("made")

def hears():
    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        warnings.warn("made")
    log.append(len(heard))

def deletes(own=own):
    own.gone = 1
    del own.gone

def forgets():
    table["gone"] = 1
    del table["gone"]
    log.append(len(table))

def weak(h):
    made = Own()
    watched = weakref.ref(made, lambda _: log.append("weak"))
    del made
    return watched

def collects():
    made = Own()
    made.self = made
    weakref.finalize(made, log.append, "collected")
    del made
    gc.collect(0)

def dies():
    Dies()

def threads():
    made = threading.Thread(target=lambda: log.append("thread"))
    made.start()
    made.join()

def makes_class():
    class Made:
        pass
    log.append(Made.__name__)

def noted(value):
    log.append(value)
    return value

def hook(gradient):
    log.append("hook")
    return gradient

def derives(h):
    with fg.enable_grad():
        (parameter * h.detach()).sum().backward()

def steps(h):
    optimizer.zero_grad()
    with fg.enable_grad():
        (parameter * h.detach()).sum().backward()
    optimizer.step()

class Doubled(fg.autograd.Function):
    @staticmethod
    def forward(ctx, h):
        log.append("forward")
        return h * 1.0
    @staticmethod
    def backward(ctx, gradient):
        return gradient * 1.0

def seen():
    places = [Stats, Sub, WithMeta, slots, own, foreign, prop, desc, borg, data, frozen, cell, called, space,
              local, module, partial, error, kept, Mood.GOOD, tally, nested["items"][0]]
    found = [(getattr(p, "n", None), getattr(p, "last", None)) for p in places]
    found += [table, items, list(queue), dict(mapped), dict(ordered), dict(given), dict(counter)]
    found += [list(codes), numbers.tolist(), sorted(members), [*log], G, L, m_now(), spoilt.__defaults__]
    found += [next(stream, None), next(endless), draws.random(), generator.random(), text.getvalue()]
    found += [variable.get()]
    found += [context.get(variable), fg.initial_seed(), cell.norm.running_mean, cell.norm.num_batches_tracked]
    found += [cell.count, kept, parameter, parameter.grad, cached.cache_info().currsize, cell.training]
    found += [fg.rand(1), lock.locked(), fg.is_grad_enabled(), parameter.requires_grad]
    return found
"""
