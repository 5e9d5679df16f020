"""Gradients of each example of a batch, by `vmap` of `grad`: each is clipped before they are averaged, so
that no example alone decides where a step goes. Then an ensemble of such models answers as one call.
"""

import fusegrad as fg
from fusegrad.func import functional_call, grad, stack_module_state
from fusegrad.nn import functional as F

MOST = 0.5  # of the norm of an example's gradient


def loss_of_one(params, model, x, label):
    return F.cross_entropy(functional_call(model, params, (x[None],)), label[None])


def clipped_step(model, x, labels, lr=4.0):
    """A step of descent by the mean of clipped gradients; gives the largest norm before."""
    params = {name: p.detach() for name, p in model.named_parameters()}
    each = fg.vmap(grad(loss_of_one), in_dims=(None, None, 0, 0))(params, model, x, labels)
    norms = fg.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
    factors = (MOST / norms).clamp(max=1.0)
    with fg.no_grad():
        for name, p in model.named_parameters():
            p -= lr * fg.einsum("i,i...->...", factors, each[name]) / len(x)
    return norms.max().item()


def trained(seed, x, labels):
    fg.manual_seed(seed)
    model = fg.nn.Sequential(fg.nn.Linear(2, 16), fg.nn.Tanh(), fg.nn.Linear(16, 2))
    largest = max(clipped_step(model, x, labels) for _ in range(150))
    return model, largest


if __name__ == "__main__":
    fg.manual_seed(0)
    x = fg.randn(200, 2)
    labels = (x[:, 0] * x[:, 1] > 0).long()
    models, norms = zip(*[trained(seed, x, labels) for seed in range(3)], strict=True)
    print(f"largest gradient of an example {max(norms):.2f}, clipped to {MOST}")
    params, buffers = stack_module_state(models)
    answers = fg.vmap(lambda p, b: functional_call(models[0], (p, b), (x,)))(params, buffers)
    for number, answer in enumerate(answers):
        print(f"model {number}: accuracy {(answer.argmax(1) == labels).float().mean().item():.3f}")
    mean = answers.softmax(-1).mean(0)
    print(f"ensemble: accuracy {(mean.argmax(1) == labels).float().mean().item():.3f}")
