"""A tree LSTM (Tai, Socher and Manning, 2015) over expressions, batched as it stands.

Each expression is a tree of its own shape; the network is written for one of them, and `fg.batched` does
alike ops of all as one. It learns whether a formula of true, false, and, or and not is true.
"""

import random

import fusegrad as fg
from fusegrad import nn
from fusegrad.nn import functional as F

WIDTH = 16
WORDS = ["true", "false", "and", "or", "not"]


class TreeLSTM(nn.Module):
    """The state of a node from its word and the states of its children."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(len(WORDS), WIDTH)
        self.gates = nn.Linear(3 * WIDTH, 5 * WIDTH)
        self.scores = nn.Linear(WIDTH, 2)
        self.register_buffer("nothing", fg.zeros(WIDTH))

    def state(self, tree):
        word, *children = tree
        states = [self.state(child) for child in children]
        (left, c_left), (right, c_right) = (states + [(self.nothing, self.nothing)] * 2)[:2]
        gates = self.gates(fg.cat([self.words(word), left, right]))
        enters, keeps_left, keeps_right, leaves, new = gates.chunk(5)
        c = fg.sigmoid(enters) * fg.tanh(new)
        c = c + fg.sigmoid(keeps_left) * c_left + fg.sigmoid(keeps_right) * c_right
        return fg.sigmoid(leaves) * fg.tanh(c), c

    def forward(self, tree):
        h, _ = self.state(tree)
        return self.scores(h)


def formula(draw, depth):
    """A random formula as a tree of words, and whether it is true."""
    if not depth or draw.random() < 0.2:
        value = draw.random() < 0.5
        return (fg.tensor(WORDS.index("true" if value else "false")),), value
    operator = draw.choice(WORDS[2:])
    word = fg.tensor(WORDS.index(operator))
    left, a = formula(draw, depth - 1)
    if operator == "not":
        return (word, left), not a
    right, b = formula(draw, depth - 1)
    return (word, left, right), (a and b) if operator == "and" else (a or b)


def main():
    fg.manual_seed(0)
    draw = random.Random(0)
    train, held_out = [[formula(draw, 3) for _ in range(n)] for n in (300, 200)]
    network = TreeLSTM()
    scores = fg.batched(network)
    optimizer = fg.optim.Adam(network.parameters(), lr=0.02)
    for epoch in range(6):
        draw.shuffle(train)
        total = 0.0
        for first in range(0, len(train), 50):
            batch = train[first : first + 50]
            labels = fg.tensor([int(value) for _, value in batch])
            loss = F.cross_entropy(fg.stack(scores([tree for tree, _ in batch])), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() / (len(train) / 50)
        print(f"epoch {epoch + 1}: loss {total:.4f}")
    with fg.no_grad():
        answers = fg.stack(scores([tree for tree, _ in held_out])).argmax(1).tolist()
    right = sum(answer == int(value) for answer, (_, value) in zip(answers, held_out, strict=True))
    print(f"accuracy on held-out formulas: {right / len(held_out):.3f}")
    report = scores.report
    count = sum(map(len, report.batches.values()))
    print(f"{report.joined} ops of {len(held_out)} formulas were done as {count}")


if __name__ == "__main__":
    main()
