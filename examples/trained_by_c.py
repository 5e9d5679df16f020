"""A program in C trains a network: the step is a library, and its state goes through its arguments.

python examples/trained_by_c.py      (leaves step.so, step.h, train.c and train beside it; needs `cc`)
"""

import subprocess

import fusegrad as fg

WIDTH, POINTS, STEPS = 32, 64, 2000


def step(w1, b1, w2, b2, x, y):
    """The parameters after one step of gradient descent, and the loss before it."""
    parameters = [p.detach().requires_grad_() for p in (w1, b1, w2, b2)]
    loss = ((fg.tanh(x @ parameters[0] + parameters[1]) @ parameters[2] + parameters[3] - y) ** 2).mean()
    gradients = fg.autograd.grad(loss, parameters)
    return *((p - 0.05 * g).detach() for p, g in zip(parameters, gradients, strict=True)), loss.detach()


PROGRAM = f"""
#include "step.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* The parameters, and what the step makes of them. */
static float w1[2][{WIDTH}], b1[2][{WIDTH}], w2[2][{WIDTH}], b2[2][1], x[{POINTS}], y[{POINTS}], loss;

int main(void) {{
    for (int i = 0; i < {WIDTH}; ++i) {{
        w1[0][i] = 6.0f * rand() / RAND_MAX - 3.0f;
        b1[0][i] = 6.0f * rand() / RAND_MAX - 3.0f;
        w2[0][i] = 0.2f * rand() / RAND_MAX - 0.1f;
    }}
    for (int i = 0; i < {POINTS}; ++i) {{
        x[i] = 4.0f * i / {POINTS} - 2.0f;
        y[i] = sinf(2.0f * x[i]);
    }}
    for (int n = 0; n < {STEPS}; ++n) {{
        int now = n % 2, then = 1 - now;
        int code = step(w1[now], b1[now], w2[now], b2[now], x, y,
                        w1[then], b1[then], w2[then], b2[then], &loss);
        if (code != STEP_OK) return code;
        if (n % 500 == 0 || n == {STEPS} - 1) printf("step %4d: loss %.5f\\n", n, loss);
    }}
    return 0;
}}
"""


def main():
    state = fg.randn(1, WIDTH), fg.zeros(WIDTH), fg.randn(WIDTH, 1), fg.zeros(1)
    fg.export(step, (*state, fg.randn(POINTS, 1), fg.randn(POINTS, 1)), "step.so")
    with open("train.c", "w") as file:
        file.write(PROGRAM)
    subprocess.run(["cc", "-O2", "train.c", "./step.so", "-lm", "-o", "train"], check=True)
    subprocess.run(["./train"], check=True)


if __name__ == "__main__":
    main()
