"""A BiLSTM tagger of sentences of all lengths, with no padding between them: nested tensors.

A sentence is letters and brackets; the tag of each place says whether it stands within brackets. For that a
tagger has to read what comes before and behind: an opening bracket that nobody closes opens nothing.
"""

import random

import fusegrad as fg
from fusegrad import nested, nn
from fusegrad.nn import functional as F

WIDTH = 24
WORDS = "ab()"


def sentence(draw):
    """Words, and of each whether it stands between a bracket and the one that closes it."""
    words = [draw.choice("aabb()") for _ in range(draw.randrange(3, 15))]
    tags, opened = [0] * len(words), None
    for place, word in enumerate(words):
        if word == "(":
            opened = place
        elif word == ")" and opened is not None:
            tags[opened + 1 : place] = [1] * (place - opened - 1)
            opened = None
    return [WORDS.index(word) for word in words], tags


class Tagger(nn.Module):
    """Scores of the tags of each word."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(len(WORDS), WIDTH)
        self.reads = nn.LSTM(WIDTH, WIDTH, batch_first=True, bidirectional=True)
        self.scores = nn.Linear(2 * WIDTH, 2)

    def forward(self, words):
        read, _ = self.reads(nested.to_packed_sequence(self.words(words)))
        return self.scores(nested.nested_tensor_from_packed(read, words))


def batch(sentences):
    """The words and the tags of some sentences."""
    words = nested.nested_tensor([fg.tensor(w) for w, _ in sentences], layout=fg.jagged)
    tags = fg.cat([fg.tensor(t) for _, t in sentences])
    return words, nested.nested_tensor_from_jagged(tags, words.offsets())


def main():
    fg.manual_seed(0)
    draw = random.Random(0)
    sentences = [sentence(draw) for _ in range(640)]
    held_out = batch(sentences[512:])
    tagger = Tagger()
    optimizer = fg.optim.Adam(tagger.parameters(), 0.01)
    for epoch in range(12):
        for start in range(0, 512, 64):
            words, tags = batch(sentences[start : start + 64])
            loss = F.cross_entropy(tagger(words).values(), tags.values())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        words, tags = held_out
        with fg.no_grad():
            right = tagger(words).argmax(-1) == tags
        whole = right.all(1).float().mean()  # a sentence counts if all of its tags are right
        tags_right = right.values().float().mean()
        print(f"epoch {epoch}: loss {loss:.3f}, right tags {tags_right:.3f}, sentences {whole:.3f}")


if __name__ == "__main__":
    main()
