"""Text spotting with strings: words encoded in the step, and what was read decoded to strings after it."""

import collections

import torch
import torch.nn as nn
from programs.common import integers, normal, seeded


class StringLabelConverter:
    def __init__(self, alphabet):
        self.alphabet = alphabet + "-"
        self.dict = {}
        for i, char in enumerate(alphabet):
            self.dict[char] = i + 1

    def encode(self, text):
        length = []
        if isinstance(text, str):
            text = [self.dict[char] for char in text]
            length = [len(text)]
        elif isinstance(text, collections.abc.Iterable):
            length = [len(s) for s in text]
            text = "".join(text)
            text, _ = self.encode(text)
        return torch.IntTensor(text), torch.IntTensor(length)

    def decode(self, t, length):
        char_list = []
        for i in range(length):
            if t[i] != 0 and (not (i > 0 and t[i - 1] == t[i])):
                char_list.append(self.alphabet[t[i] - 1])
        return "".join(char_list)


WORDS = ["cab", "ace", "dead", "fee", "bad", "face", "add", "cafe"]


def steps():
    model = seeded(nn.Sequential(nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, 7)))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    converter, ctc = StringLabelConverter("abcdef"), nn.CTCLoss(zero_infinity=True)
    total = {"loss": 0.0}

    def train(images, transcripts):
        optimizer.zero_grad()
        labels, label_lengths = converter.encode(list(transcripts))
        preds = model(images).log_softmax(2)
        lengths = torch.IntTensor([preds.size(0)] * preds.size(1))
        loss = ctc(preds, labels, lengths, label_lengths)
        loss.backward()
        optimizer.step()
        total["loss"] += loss.item()
        pred_transcripts = []
        _, pred = preds.max(2)
        for i in range(lengths.numel()):
            l = lengths[i]
            p = pred[:l, i]
            pred_transcripts.append(converter.decode(p, l))
        right = sum(p == t for p, t in zip(pred_transcripts, transcripts))
        return loss, right

    return train, lambda i: (
        torch.from_numpy(normal(9, 3, 5, seed=i)),
        tuple(WORDS[j] for j in integers(len(WORDS), 3, seed=i)),
    )
