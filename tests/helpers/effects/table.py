"""The table of effects: statements that do something to the world, by what they do.

Stores of all kinds, and calls with effects. In a round `h` is a tensor, and `t` its number; `world.py` has
the other names.
"""

from __future__ import annotations

from collections.abc import Iterator

# What has attributes `n` and `last`, and what items can be set of.
OWNERS = {
    "class": "Stats", "subclass": "Sub", "class of a metaclass": "WithMeta", "slots": "slots",
    "object": "own", "foreign __setattr__": "foreign", "__getattribute__": "looked",
    "property": "prop", "descriptor": "desc",
    "shared __dict__": "borg", "dataclass": "data", "nn.Module": "cell", "SimpleNamespace": "space",
    "threading.local": "local", "module": "module", "partial": "partial", "exception": "error",
    "tensor": "kept", "enum": "Mood.GOOD", "function": "tally", "object in a dict": "nested['own']",
    "object in a list": "nested['items'][0]",
}  # fmt: skip
HOLDERS = {
    "dict": "table['n']", "list": "items[0]", "deque": "queue[0]", "dict with __setitem__": "mapped['n']",
    "OrderedDict": "ordered['n']", "defaultdict": "given['n']", "Counter": "counter['n']",
    "__dict__": "own.__dict__['n']", "vars": "vars(own)['n']", "globals": "globals()['G']",
    "array": "codes[0]", "ndarray": "numbers[0]", "memoryview": "memory[0]", "__setitem__": "called['n']",
}  # fmt: skip
OF_OWNERS = [
    "{}.n += 1",
    "{}.last = h",
    "setattr({}, 'n', {}.n + 2)",
    "{}.n = {}.n + 3",
    "{}.n -= 1; {}.last = {}.n",
]
OF_HOLDERS = ["{} += 1", "{} = {} + 2", "operator.setitem({0}, {1}, {0}[{1}] + 1)"]
TENSORS_IN = ["table['last'] = h", "items[1] = h", "queue[1] = h", "mapped['last'] = h", "table['n'] = t"]

CALLS_OF: dict[str, str] = {
    "object.__setattr__": "object.__setattr__(own, 'n', own.n + 1)",
    "frozen": "object.__setattr__(frozen, 'n', frozen.n + 1)",
    "type.__setattr__": "type.__setattr__(Stats, 'n', Stats.n + 1)",
    "update of __dict__": "vars(own).update(n=own.n + 1)",
    "delattr": "deletes()",
    "del of an item": "forgets()",
    "append": "log.append(1)",
    "append a tensor": "log.append(h)",
    "extend": "log.extend([1, 2])",
    "+= of a list": "nested['items'] += [1]",
    "insert": "log.insert(0, 1)",
    "pop": "log.append(1); log.pop(); log.append(2)",
    "set.add": "members.add(len(members))",
    "dict.setdefault": "table.setdefault('n' + str(len(table)), 1)",
    "dict.update": "table.update(n=table['n'] + 1)",
    "Counter.update": "counter.update('ab')",
    "deque.append": "queue.append(1)",
    "deque.rotate": "queue.rotate(1)",
    "list.sort": "log.append(-len(log)); log.sort()",
    "list.clear": "log.clear(); log.append(3)",
    "global": "sets_global()",
    "global tensor": "sets_global_to(h)",
    "nonlocal": "more()",
    "default": "spoilt()",
    "print": "print('made')",
    "print a tensor": "print(h.shape)",
    "file": "text.write('made')",
    "stdout": "sys.stdout.write('made')",
    "logging": "logger.warning('made')",
    "random": "draws.random()",
    "random that is used": "h = h * (1 + draws.random())",
    "NumPy's generator": "generator.random()",
    "draw": "h = h + fg.rand(3, dtype=fg.float64) * 0.1",
    "draw that is dropped": "fg.rand(3)",
    "seed": "fg.manual_seed(7)",
    "dropout": "h = cell.drop(h)",
    "norm": "h = cell.norm(fg.stack([h, h * 0.5]))[0] * 0.1 + h",
    "buffer": "cell.count.add_(1)",
    "buffer +=": "cell.count += h.detach()",
    "write of a tensor": "kept.add_(1)",
    "write of an item": "kept[0] = kept[0] + 1",
    "write of the result": "kept.copy_(h.detach())",
    "write of data": "kept.data = kept.data + 1",
    "gradient": "derives(h)",
    "gradient that is set": "parameter.grad = h.detach()",
    "step": "steps(h)",
    "requires_grad": "parameter.requires_grad_(not parameter.requires_grad)",
    "train": "cell.train(not cell.training)",
    "weakref": "weak(h)",
    "gc": "collects()",
    "__del__": "dies()",
    "next": "next(stream)",
    "next that is used": "h = h * (1 + next(stream) * 0.001)",
    "count": "next(endless)",
    "generator": "next(produced)",
    "generator that is used": "h = h * next(produced)",
    "iterator in a for": "for _ in zip([1], stream): pass",
    "iterator in a call": "list(itertools.islice(stream, 2))",
    "iterator in a test": "1 in stream",
    "context": "enters(h)",
    "exception": "catches(h)",
    "warning": "hears()",
    "signal": "arrives()",
    "thread": "threads()",
    "class made": "makes_class()",
    "lock": "lock.acquire(); lock.release(); log.append(lock.locked())",
    "contextvar": "variable.set(variable.get() + 1)",
    "context run": "context.run(variable.set, context.get(variable, 0) + 1)",
    "cached": "cached(1)",
    "cached anew": "cached(len(log)); log.append(1)",
    "recursion limit": "limits()",
    "eval": "eval('log.append(1)')",
    "exec": "exec('log.append(1)')",
    "map": "list(map(log.append, [1]))",
    "sorted by key": "sorted([2, 1], key=noted)",
    "__bool__": "h = h * 1.0 if called else h",
    "__eq__": "called == 1",
    "__call__": "h = called(h)",
    "__len__": "len(called)",
    "__index__": "h = h + h[called]",
    "__add__": "h = called + h",
    "__iadd__": "nested['own'].last = operator.iadd(called, 1) is called",
    "__iter__": "for _ in called: pass",
    "__contains__": "1 in called",
    "__getitem__": "called[0]",
    "__delitem__": "operator.delitem(called, 0)",
    "__getattr__": "missed.anything",
    "__getattribute__ read": "looked.n",
    "getattr": "getattr(missed, 'anything')",
    "hook of a tensor": "h = (lambda a: (a.register_hook(hook) if a.requires_grad else None, a)[1])(h * 1.0)",
    "function with effects": "h = Doubled.apply(h)",
    "lambda": "(lambda: log.append(1))()",
    "vmap": "fg.func.vmap(noted)(fg.stack([h, h])); log.clear()",
    "printed in a branch": "if h.sum() > 0: print('made')",
    "counted in a branch": "if h.sum() > 0: Stats.n += 1",
    "own in a branch": "if h.sum() > 0: own.n += 1",
    "item in a branch": "if h.sum() > 0: table['n'] += 1",
    "tensor in a branch": "if h.sum() > 0: slots.last = h",
    "appended in a branch": "if h.sum() > 0: log.append(1)",
    "value": "log.append(round(h.sum().item(), 6))",
    "value that is set": "slots.last = round(h.sum().item(), 6)",
    "value that is kept": "own.last = h.sum().item()",
}


def _of_stores() -> Iterator[tuple[str, str]]:
    for name, owner in OWNERS.items():
        for number, form in enumerate(OF_OWNERS):
            yield f"{name} {number}", form.replace("{}", owner)
    for name, holder in HOLDERS.items():
        owner, _, key = holder.rpartition("[")
        for number, form in enumerate(OF_HOLDERS):
            yield f"{name} item {number}", form.replace("{}", holder).format(owner, key[:-1])
    for number, line in enumerate(TENSORS_IN):
        yield f"tensor in items {number}", line


# The statements, by what they do.
EFFECTS: dict[str, str] = {**dict(_of_stores()), **CALLS_OF}
