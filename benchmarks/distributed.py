"""What several ranks gain, and what their exchanges cost: two measurements on one machine.

`python benchmarks/distributed.py steps`: steps of training on two networks, jitted whole: by one process
with one thread and with two, and by two ranks of one thread each, which have half of the batch each. All in
turn, several rounds; the least of the rounds' medians counts.
`python benchmarks/distributed.py reduce`: all_reduce between two ranks, beside torch's gloo in the same
processes, in turn; least and median times.
`--quick`: few rounds, to see that it works. `--json FILE`: the figures.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

NETWORKS = ("wide", "convolutions")
WAYS = {"one thread": (1, 1), "two threads": (1, 2), "two ranks": (2, 1)}  # ranks, threads of each


def network(kind):
    """A network, and a batch for it."""
    import fusegrad as fg

    nn = fg.nn
    fg.manual_seed(0)
    if kind == "wide":
        layers = [nn.Linear(512, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 10)]
        return nn.Sequential(*layers), fg.randn(1024, 512), fg.randint(0, 10, (1024,))
    layers = [nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU()]
    layers += [
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * 16 * 16, 10),
    ]
    return nn.Sequential(*layers), fg.randn(64, 3, 32, 32), fg.randint(0, 10, (64,))


def steps(kind, count, threads):
    """Print the median time of a jitted step; a rank of several has its part of the batch."""
    import fusegrad as fg
    from fusegrad import distributed as dist

    fg.set_num_threads(threads)
    dist.init_process_group()
    ranks, rank = dist.get_world_size(), dist.get_rank()
    model, x, labels = network(kind)
    x, labels = (t.chunk(ranks)[rank].clone() for t in (x, labels))
    ddp = fg.nn.parallel.DistributedDataParallel(model)
    optimizer = fg.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)

    @fg.jit
    def step(x, labels):
        optimizer.zero_grad()
        loss = fg.nn.functional.cross_entropy(ddp(x), labels)
        loss.backward()
        optimizer.step()
        return loss.detach()

    for _ in range(5):
        step(x, labels)
    fg.wait_for_compilation()
    times = []
    for _ in range(count):
        start = time.perf_counter()
        step(x, labels)
        times.append(time.perf_counter() - start)
    assert step.stats.compiled_calls >= count, step.explain()
    if rank == 0:
        print("median", statistics.median(times))
    dist.destroy_process_group()


def launched(ranks, threads, *arguments):
    """What this script prints when it runs so, its last line."""
    start = (
        [sys.executable, "-m", "fusegrad", "run", f"--nproc-per-node={ranks}"]
        if ranks > 1
        else [sys.executable]
    )
    alone = {} if ranks > 1 else {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0"}
    environment = {
        **os.environ,
        **alone,
        "OMP_NUM_THREADS": str(threads),
        "OPENBLAS_NUM_THREADS": str(threads),
    }
    command = [*start, os.path.abspath(__file__), *map(str, arguments)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(done.stdout + done.stderr)
    return done.stdout.splitlines()[-1]


def compare_steps(rounds, count):
    """The least of the rounds' medians, in milliseconds, by network and way."""
    found = {}
    for kind in NETWORKS:
        times = {way: [] for way in WAYS}
        for _ in range(rounds):
            for way, (ranks, threads) in WAYS.items():
                line = launched(ranks, threads, "rank-steps", kind, count, threads)
                times[way].append(float(line.split()[1]) * 1e3)
        least = {way: min(measured) for way, measured in times.items()}
        found[kind] = {**least, "speed-up of two threads": least["one thread"] / least["two threads"]}
        found[kind]["speed-up of two ranks"] = least["one thread"] / least["two ranks"]
        print(kind, {name: round(value, 3) for name, value in found[kind].items()}, flush=True)
    return found


def reduce(count, path):
    """Print least and median times of all_reduce, here and by gloo, in microseconds."""
    import torch

    import fusegrad as fg
    from fusegrad import distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    torch.distributed.init_process_group("gloo", init_method=f"file://{path}", rank=rank, world_size=ranks)
    found = {}
    for size in (1, 1 << 10, 1 << 14, 1 << 20):
        ours, theirs = fg.zeros(size), torch.zeros(size)
        calls = {"fusegrad": lambda x=ours: dist.all_reduce(x)}
        calls["gloo"] = lambda x=theirs: torch.distributed.all_reduce(x)
        times = {name: [] for name in calls}
        for i in range(count + 5):
            for name, call in calls.items():
                dist.barrier()
                start = time.perf_counter()
                call()
                if i >= 5:
                    times[name].append((time.perf_counter() - start) * 1e6)
        found[f"{size * 4} bytes"] = {n: (min(t), statistics.median(t)) for n, t in times.items()}
    if rank == 0:
        print("figures", json.dumps(found))
    torch.distributed.destroy_process_group()
    dist.destroy_process_group()


def compare_reductions(rounds, count):
    """The least of the least times, and of the medians, of some rounds."""
    found = {}
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            line = launched(2, 1, "rank-reduce", count, os.path.join(folder, "gloo"))
        for size, times in json.loads(line.removeprefix("figures ")).items():
            for name, (least, median) in times.items():
                before = found.setdefault(size, {}).get(name, (least, median))
                found[size][name] = (min(before[0], least), min(before[1], median))
    for size, times in found.items():
        told = ", ".join(f"{name} {least:.0f} ({median:.0f})" for name, (least, median) in times.items())
        print(f"all_reduce of {size}, us, least (median): {told}")
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("what", choices=["steps", "reduce", "rank-steps", "rank-reduce"])
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json")
    options = parser.parse_args()
    if options.what == "rank-steps":
        kind, count, threads = options.rest
        return steps(kind, int(count), int(threads))
    if options.what == "rank-reduce":
        count, path = options.rest
        return reduce(int(count), path)
    compare = compare_steps if options.what == "steps" else compare_reductions
    found = compare(1, 3) if options.quick else compare(5, 40 if options.what == "steps" else 300)
    if options.json:
        with open(options.json, "w") as file:
            json.dump(found, file)
    return None


if __name__ == "__main__":
    main()
