"""Attention on a toy translation: numbers in words to their digits, "four hundred seven" to "407".

Run it with `python examples/translate_attention.py`. An encoder reads the words, a decoder writes the
digits one by one and looks back at the words through attention. Trained on 800 of the numbers below
1000, tried on the other 200. Prints the loss, how many of those come out exactly, and what one digit
looked at.
"""

import fusegrad as fg
from fusegrad import nn
from fusegrad.nn.functional import cross_entropy, scaled_dot_product_attention
from fusegrad.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence, pad_sequence

ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen
sixteen seventeen eighteen nineteen""".split()
TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
WORDS = ["", *ONES, *TENS, "hundred"]  # the first is padding
END = 10  # behind the digits 0..9
EPOCHS, BATCH, SIZE = 16, 50, 48


def in_words(number):
    if number < 20:
        return [ONES[number]]
    if number < 100:
        return [TENS[number // 10 - 2], *([ONES[number % 10]] if number % 10 else [])]
    return [ONES[number // 100], "hundred", *(in_words(number % 100) if number % 100 else [])]


def batch(numbers):
    """Words [N, S] (0 behind the end) and digits [N, 4], filled up with END."""
    words = [fg.tensor([WORDS.index(word) for word in in_words(n)]) for n in numbers]
    digits = [fg.tensor(([int(digit) for digit in str(n)] + [END] * 4)[:4]) for n in numbers]
    return pad_sequence(words, batch_first=True), fg.stack(digits)


class Translator(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(len(WORDS), SIZE, padding_idx=0)
        self.digits = nn.Embedding(END + 2, SIZE)  # and one that begins each number
        self.encoder = nn.GRU(SIZE, SIZE // 2, batch_first=True, bidirectional=True)
        self.decoder = nn.GRUCell(2 * SIZE, SIZE)
        self.scores = nn.Linear(2 * SIZE, END + 1)

    def forward(self, words, targets=None):
        """Scores of the digits [N, 4, 11], and what each looked at [N, 4, S].

        Each digit is told the one before: that of `targets` in training, else its own best guess.
        """
        lengths = (words != 0).sum(1)
        packed = pack_padded_sequence(self.words(words), lengths, batch_first=True, enforce_sorted=False)
        output, last = self.encoder(packed)
        memory, _ = pad_packed_sequence(output, batch_first=True)
        state = fg.cat([last[0], last[1]], 1)
        seen = (words != 0).unsqueeze(1)
        places = fg.eye(words.shape[1]).expand(len(words), -1, -1)
        digit = fg.full((len(words),), END + 1)
        scores, looks = [], []
        for step in range(4):
            query = state.unsqueeze(1)
            context = scaled_dot_product_attention(query, memory, memory, attn_mask=seen).squeeze(1)
            looks.append(scaled_dot_product_attention(query, memory, places, attn_mask=seen).squeeze(1))
            state = self.decoder(fg.cat([self.digits(digit), context], 1), state)
            scores.append(self.scores(fg.cat([state, context], 1)))
            digit = scores[-1].argmax(1) if targets is None else targets[:, step]
        return fg.stack(scores, 1), fg.stack(looks, 1)


def train(model, numbers):
    """The mean loss of each epoch."""
    optimizer = fg.optim.Adam(model.parameters(), lr=5e-3)
    curve = []
    for epoch in range(EPOCHS):
        order = fg.randperm(len(numbers)).tolist()
        losses = []
        for first in range(0, len(numbers), BATCH):
            words, digits = batch([numbers[i] for i in order[first : first + BATCH]])
            scores, _ = model(words, digits)
            loss = cross_entropy(scores.flatten(0, 1), digits.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        curve.append(sum(losses) / len(losses))
        if epoch % 5 == 0 or epoch == EPOCHS - 1:
            print(f"epoch {epoch:2}  loss {curve[-1]:.4f}")
    return curve


def main():
    fg.manual_seed(0)
    numbers = fg.randperm(1000).tolist()
    model = Translator()
    curve = train(model, numbers[:800])
    with fg.no_grad():
        words, digits = batch(numbers[800:])
        exact = (model(words)[0].argmax(2) == digits).all(1).float().mean().item()
        print(f"{exact:.1%} of the 200 held-out numbers come out exactly")
        scores, looks = model(batch([842])[0])
    for digit, weights in zip(scores[0].argmax(1).tolist(), looks[0].tolist(), strict=True):
        shown = ", ".join(f"{word} {w:.2f}" for word, w in zip(in_words(842), weights, strict=True))
        print(f"{digit if digit < END else 'end'!s:>4} looked at {shown}")
    return curve, exact


if __name__ == "__main__":
    main()
