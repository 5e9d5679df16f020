"""Handwritten digits: train a network with its loss under `@fg.jit`, and look at what that brought.

`make demo` runs it. Trains on the 1,797 scans that scikit-learn ships, twice from the same start:
once compiled, once eager. Leaves in out/ the loss curves, ONNX, a page of the graph, the figures.
"""

import itertools
import json
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime
from sklearn.datasets import load_digits

import fusegrad as fg
from fusegrad.nn import functional as F

OUT = Path("out")
EPOCHS, BATCH = 40, 64


def classify(x, w1, b1, w2, b2, w3, b3):
    """Ten scores for each image."""
    return fg.relu(fg.relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3


@fg.jit
def loss(x, labels, *parameters):
    return F.cross_entropy(classify(x, *parameters), labels)


def loss_torch(x, labels, w1, b1, w2, b2, w3, b3):
    import torch

    scores = torch.relu(torch.relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3
    return torch.nn.functional.cross_entropy(scores, labels)


def loss_jax(x, labels, w1, b1, w2, b2, w3, b3):
    import jax

    scores = jax.nn.relu(jax.nn.relu(x @ w1 + b1) @ w2 + b2) @ w3 + b3
    return -jax.nn.log_softmax(scores)[jax.numpy.arange(len(labels)), labels].mean()


def start(sizes=(64, 128, 64, 10)):
    """The parameters before training: the same ones at every call."""
    fg.manual_seed(0)
    parameters = []
    for rows, columns in itertools.pairwise(sizes):
        weight = fg.randn(rows, columns) * (2 / rows) ** 0.5
        parameters += [weight.requires_grad_(), fg.zeros(columns, requires_grad=True)]
    return parameters


def data():
    """Images scaled to 0..1 and labels, shuffled: 1,437 to train on, 360 held out."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(images))
    x = fg.from_numpy((images[order] / 16).astype(np.float32))
    y = fg.from_numpy(labels[order].astype(np.int64))
    return x[:1437], y[:1437], x[1437:], y[1437:]


def train(loss_function, x, labels, title):
    """The parameters after training, and of each epoch the mean loss and the seconds."""
    parameters = start()
    optimizer = fg.optim.Adam(parameters, lr=2e-3)
    shuffle = np.random.default_rng(1)
    curve, seconds = [], []
    for epoch in range(EPOCHS):
        began = time.perf_counter()
        order = fg.from_numpy(shuffle.permutation(len(x)))
        losses = []
        # The last, smaller batch is left out: it would be compiled for itself.
        for first in range(0, len(x) - BATCH + 1, BATCH):
            rows = order[first : first + BATCH]
            value = loss_function(x[rows], labels[rows], *parameters)
            optimizer.zero_grad()
            value.backward()
            optimizer.step()
            losses.append(value.item())
        curve.append(sum(losses) / len(losses))
        seconds.append(time.perf_counter() - began)
        bar(title, epoch + 1, curve[-1])
    return parameters, curve, seconds


def bar(title, epoch, value):
    """A line that grows in a terminal; elsewhere only its end is printed."""
    end = "\n" if epoch == EPOCHS else ""
    if end or sys.stdout.isatty():
        blocks = "█" * (30 * epoch // EPOCHS)
        print(f"\r{title:>8} [{blocks:30}] epoch {epoch}/{EPOCHS}  loss {value:.4f}", end=end, flush=True)


def save_curves(path, curves):
    from matplotlib.figure import Figure

    axes = Figure(figsize=(6.4, 4), layout="constrained").add_subplot()
    axes.plot(curves["eager"], linewidth=2, label="eager")
    axes.plot(curves["compiled"], "--", linewidth=2, label="compiled")
    axes.set(xlabel="epoch", ylabel="training loss", yscale="log", title="Digits: eager and compiled")
    axes.legend()
    axes.figure.savefig(path, dpi=150)


def check_onnx(path, x, expected):
    """The largest difference between what onnxruntime and fusegrad compute."""
    session = onnxruntime.InferenceSession(path)
    (found,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    return float(np.abs(found - expected).max())


def main():
    OUT.mkdir(exist_ok=True)
    x, labels, x_test, labels_test = data()
    parameters, compiled, seconds = train(loss, x, labels, "compiled")
    _, eager, eager_seconds = train(loss.__wrapped__, x, labels, "eager")

    def classifier(x):
        return classify(x, *[p.detach() for p in parameters])

    scores = classifier(x_test)
    accuracy = (scores.argmax(1) == labels_test).float().mean().item()
    print(f"\n{accuracy:.2%} of the held-out digits are read correctly")
    for title, taken in (("compiled", seconds), ("eager", eager_seconds)):
        first, *others = taken
        print(f"{title:>8}: the first epoch took {first:.2f} s, the other {len(others)} {sum(others):.2f} s")
    print()
    batch = (x[:BATCH], labels[:BATCH], *parameters)
    peers = {"torch": loss_torch, "jax": loss_jax}
    comparison = fg.compare(loss, *batch, peers=peers, plot=OUT / "digits_compare.png")
    save_curves(OUT / "digits_loss.png", {"eager": eager, "compiled": compiled})
    fg.export(classifier, (x_test,), OUT / "digits.onnx")
    fg.export(loss, batch, OUT / "digits.html")
    figures = {
        "accuracy": accuracy,
        "seconds": {"compiled": seconds, "eager": eager_seconds},
        "loss": {"compiled": compiled, "eager": eager},
        "onnx_difference": check_onnx(OUT / "digits.onnx", x_test, scores.numpy()),
        "stats": vars(loss.stats),
        "compare": comparison.as_dict(),
    }
    (OUT / "digits.json").write_text(json.dumps(figures, indent=2))
    print(f"\nonnxruntime and fusegrad differ by at most {figures['onnx_difference']:.1e}; wrote:")
    for path in sorted(OUT.glob("digits*")):
        print(f"  {path}")


if __name__ == "__main__":
    main()
