"""A search for hyperparameters, and an ensemble of the best: many trainings that know nothing of each other.

Processes are joblib's, or those of Dask on this machine with `--dask` (`pip install distributed`), or of Ray
with `--ray` (`pip install ray`); `Client("scheduler:8786")` and `ray.init("auto")` have those of a cluster.
Functions go there pickled: by their names, if they stand in a module that workers can import.
"""

import os
import sys

os.environ.setdefault("OMP_NUM_THREADS", "1")  # of each worker: they have a core each

import fusegrad as fg
from fusegrad.nn import functional as F


def moons(count, seed):
    generator = fg.Generator().manual_seed(seed)
    labels = fg.arange(count) % 2
    angle = fg.rand(count, generator=generator) * 3.1416
    x = fg.where(labels > 0, 1 - fg.cos(angle), fg.cos(angle))
    y = fg.where(labels > 0, 0.5 - fg.sin(angle), fg.sin(angle))
    return fg.stack([x, y], 1) + 0.15 * fg.randn(count, 2, generator=generator), labels


def network(width):
    return fg.nn.Sequential(fg.nn.Linear(2, width), fg.nn.Tanh(), fg.nn.Linear(width, 2))


def trained(width, lr, seed, steps=120):
    """The share of right answers on held-out points, and what the network has learnt."""
    fg.manual_seed(seed)
    (x, labels), (held, answers) = moons(256, 0), moons(512, 1)
    model = network(width)
    optimizer = fg.optim.Adam(model.parameters(), lr=lr)

    @fg.jit
    def step(x, labels):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), labels)
        loss.backward()
        optimizer.step()
        return loss

    for _ in range(steps):
        step(x, labels)
    with fg.no_grad():
        right = (model(held).argmax(1) == answers).float().mean().item()
    return right, width, model.state_dict()


def in_processes(calls):
    """The results of `trained` for each of the calls, two processes at a time."""
    if "--dask" in sys.argv:
        from dask.distributed import Client

        with Client(n_workers=2, threads_per_worker=1, dashboard_address=None) as client:
            return client.gather([client.submit(trained, *call) for call in calls])
    if "--ray" in sys.argv:
        import ray

        if not ray.is_initialized():
            ray.init(num_cpus=2, include_dashboard=False)
        train = ray.remote(trained)
        return ray.get([train.remote(*call) for call in calls])
    from joblib import Parallel, delayed

    return Parallel(n_jobs=2)(delayed(trained)(*call) for call in calls)


if __name__ == "__main__":
    grid = [(width, lr, 0) for width in (4, 16) for lr in (0.003, 0.03)]
    results = in_processes(grid)
    for (width, lr, _), (right, *_) in zip(grid, results, strict=True):
        print(f"width {width:2}, lr {lr}: {right:.3f} right")
    (width, lr, _), _ = max(zip(grid, results, strict=True), key=lambda pair: pair[1][0])
    members = in_processes([(width, lr, seed) for seed in range(1, 4)])

    held, answers = moons(512, 1)
    votes = 0
    for _, width, learnt in members:
        model = network(width)
        model.load_state_dict(learnt)
        votes = votes + model(held).softmax(1)
    right = (votes.argmax(1) == answers).float().mean().item()
    print(f"ensemble of {len(members)}: {right:.3f} right")
