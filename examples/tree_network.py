"""A recursive network: its shape follows the syntax tree of each expression, so no two runs are alike.

Python parses arithmetic expressions; the network walks each tree from the leaves and says what the
value of every part leaves when divided by 3. It computes no values; it learns what operators do.
"""

import ast
import random

import fusegrad as fg
from fusegrad import nn
from fusegrad.nn import functional as F

WIDTH, REMAINDERS = 12, 3
OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*"}


class TreeNetwork(nn.Module):
    """One vector for each node of a tree, made from those of its children by the node's operator."""

    def __init__(self):
        super().__init__()
        self.digits = nn.Embedding(10, WIDTH)
        self.binary = nn.ModuleDict({kind.__name__: nn.Bilinear(WIDTH, WIDTH, WIDTH) for kind in OPERATORS})
        self.negative = nn.Linear(WIDTH, WIDTH)
        self.scores = nn.Linear(WIDTH, REMAINDERS)

    def vector(self, node, seen):
        if isinstance(node, ast.Constant):
            vector = self.digits.weight[node.value]
        elif isinstance(node, ast.UnaryOp):
            vector = fg.tanh(self.negative(self.vector(node.operand, seen)))
        else:
            combine = self.binary[type(node.op).__name__]
            vector = fg.tanh(combine(self.vector(node.left, seen), self.vector(node.right, seen)))
        seen.append(vector)
        return vector

    def forward(self, trees):
        """Scores for every node of every tree, children before parents."""
        seen = []
        for tree in trees:
            self.vector(tree, seen)
        return self.scores(fg.stack(seen))


def expression(draw, depth):
    """The text of a random expression, at most `depth` operators deep."""
    if depth == 0 or draw.random() < 0.1:
        return str(draw.randrange(10))
    if draw.random() < 0.15:
        return f"-({expression(draw, depth - 1)})"
    sign = draw.choice(list(OPERATORS.values()))
    return f"({expression(draw, depth - 1)} {sign} {expression(draw, depth - 1)})"


def remainders(node):
    """The right answers, in the order of the network's scores."""
    children = [c for c in ast.iter_child_nodes(node) if isinstance(c, ast.expr)]
    below = [answer for child in children for answer in remainders(child)]
    return [*below, eval(ast.unparse(node)) % REMAINDERS]


def examples(draw, count, depth):
    trees = [ast.parse(expression(draw, depth), mode="eval").body for _ in range(count)]
    return [(tree, remainders(tree)) for tree in trees]


def accuracy(network, data):
    """How often the answer for the whole expression is right."""
    with fg.no_grad():
        return sum(network([tree])[-1].argmax().item() == labels[-1] for tree, labels in data) / len(data)


def main():
    fg.manual_seed(0)
    draw = random.Random(0)
    train, held_out, deeper = examples(draw, 500, 2), examples(draw, 200, 2), examples(draw, 50, 6)
    network = TreeNetwork()
    # Weight decay makes the difference between learning expressions by heart and learning the rules.
    optimizer = fg.optim.AdamW(network.parameters(), lr=0.02, weight_decay=0.5)
    for epoch in range(5):
        draw.shuffle(train)
        total = 0.0
        for first in range(0, len(train), 10):
            batch = train[first : first + 10]
            answers = fg.tensor([answer for _, labels in batch for answer in labels])
            loss = F.cross_entropy(network([tree for tree, _ in batch]), answers)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.item() / (len(train) / 10)
        print(f"epoch {epoch + 1}: loss {total:.4f}")
    print(f"accuracy on held-out expressions: {accuracy(network, held_out):.3f}")
    print(f"accuracy on expressions three times as deep: {accuracy(network, deeper):.3f}")
    tree, labels = held_out[0]
    answer = network([tree])[-1].argmax().item()
    print(f"{ast.unparse(tree)} leaves {answer}; the truth is {labels[-1]}")


if __name__ == "__main__":
    main()
