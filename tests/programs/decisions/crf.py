"""A linear chain's conditional random field on an LSTM's scores."""

import torch
import torch.nn as nn
from programs.common import integers, seeded


class BiLSTM_CRF(nn.Module):
    def __init__(self, vocab_size, tags):
        super().__init__()
        self.tags = tags
        self.word_embeds = nn.Embedding(vocab_size, 8)
        self.lstm = nn.LSTM(8, 4, num_layers=1, bidirectional=True)
        self.hidden2tag = nn.Linear(8, tags)
        self.transitions = nn.Parameter(torch.zeros(tags, tags))
        self.start, self.end = nn.Parameter(torch.zeros(tags)), nn.Parameter(torch.zeros(tags))

    def _get_lstm_features(self, sentence):
        lstm_out, _ = self.lstm(self.word_embeds(sentence))
        return self.hidden2tag(lstm_out)

    def _forward_alg(self, feats):
        alpha = self.start + feats[0]
        for emission in feats[1:]:
            alpha = torch.logsumexp(alpha.unsqueeze(2) + self.transitions + emission.unsqueeze(1), dim=1)
        return torch.logsumexp(alpha + self.end, dim=1)

    def _score_sentence(self, feats, tags):
        score = self.start[tags[0]] + feats[0].gather(1, tags[0].unsqueeze(1)).squeeze(1)
        for t in range(1, len(feats)):
            score = score + self.transitions[tags[t - 1], tags[t]]
            score = score + feats[t].gather(1, tags[t].unsqueeze(1)).squeeze(1)
        return score + self.end[tags[-1]]

    def neg_log_likelihood(self, sentence, tags):
        feats = self._get_lstm_features(sentence)
        return (self._forward_alg(feats) - self._score_sentence(feats, tags)).mean()

    @torch.no_grad()
    def viterbi(self, sentence):
        feats = self._get_lstm_features(sentence)
        best, pointers = self.start + feats[0], []
        for emission in feats[1:]:
            best, pointer = (best.unsqueeze(2) + self.transitions).max(1)
            best, pointers = best + emission, [*pointers, pointer]
        tag = (best + self.end).argmax(1)
        path = [tag]
        for pointer in reversed(pointers):
            tag = pointer.gather(1, tag.unsqueeze(1)).squeeze(1)
            path.insert(0, tag)
        return torch.stack(path)


def steps():
    model = seeded(BiLSTM_CRF(15, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, weight_decay=1e-4)

    def train(sentence, tags):
        model.zero_grad()
        loss = model.neg_log_likelihood(sentence, tags)
        loss.backward()
        optimizer.step()
        return loss, (model.viterbi(sentence) == tags).float().mean()

    return train, lambda i: (
        torch.from_numpy(integers(15, 5, 3, seed=i)),
        torch.from_numpy(integers(4, 5, 3, seed=i + 1)),
    )
