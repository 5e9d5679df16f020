"""An ordinary `if` on tensor data: each side is compiled when it is first met, then both run natively."""

import fusegrad as fg


@fg.jit
def settle(x):
    energy = (x * x).mean()
    if energy > 1:
        x = x / energy.sqrt()
    else:
        x = fg.tanh(x)
    return (x * x).sum()


example_args = (fg.linspace(-1, 1, 1000, requires_grad=True),)


if __name__ == "__main__":
    for scale in (0.5, 3.0, 0.1, 5.0, 0.7, 2.0):
        x = (fg.linspace(-1, 1, 1000) * scale).requires_grad_()
        before = settle.stats.compiled_calls
        loss = settle(x)
        loss.backward()
        how = "compiled" if settle.stats.compiled_calls > before else "eager, recorded"
        print(f"scale {scale}: {loss.item():8.3f}  gradient norm {x.grad.norm().item():.3f}  ({how})")
    print()
    print(settle.explain())
