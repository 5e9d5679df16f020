"""Relations in images: two towers, triplets within a batch, histograms of gradients now and then, times of day."""

import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(6, 8, batch_first=True)

    def forward(self, emb, seq_lens):
        output, _ = self.rnn(emb)
        last = output[torch.arange(output.size(0)), seq_lens - 1]
        return F.normalize(last, dim=-1)


class TripletLoss(nn.Module):
    def __init__(self, margin):
        super().__init__()
        self.margin = margin

    def forward(self, x, y):
        similarity = x @ y.t()
        positive = similarity.diag().view(-1, 1)
        mask = torch.eye(similarity.size(0)) > 0.5
        cost = (self.margin + similarity - positive).clamp(min=0)
        cost = cost.masked_fill_(mask, 0)
        return cost.max(1)[0].sum()


class TfbLogger:
    def __init__(self):
        self.kept = []

    def scalar_summary(self, tag, value, step):
        self.kept.append((tag, value, step))

    def histo_summary(self, tag, values, step):
        self.kept.append((tag, values.sum(), step))


def steps():
    word_emb = seeded(nn.Embedding(12, 6))
    vision_model, language_model = seeded(nn.Linear(5, 8)), seeded(LanguageModel())
    params = [*vision_model.parameters(), *language_model.parameters()]
    named_params = [*vision_model.named_parameters(), *language_model.named_parameters()]
    optimizer = torch.optim.Adam(params, lr=1e-3)
    ent_loss_model, tfb_logger = TripletLoss(0.2), TfbLogger()
    state = {"epoch_loss": 0.0, "step": 0}
    grad_freq = 40

    def train(i, images, tokens, seq_lens):
        tic_0 = time.time()
        optimizer.zero_grad()
        t_emb = language_model(word_emb(tokens), seq_lens)
        v_emb = F.normalize(vision_model(images), dim=-1)
        loss = ent_loss_model(v_emb, t_emb) + ent_loss_model(t_emb, v_emb)
        tic_3 = time.time()
        loss.backward()
        optimizer.step()
        tic_4 = time.time()
        if grad_freq > 0 and i % grad_freq == 0:
            for n, p in named_params:
                if "bias" not in n:
                    tfb_logger.histo_summary(
                        "grad/%s" % n.replace(".", "/"), p.grad.data.cpu().numpy(), state["step"]
                    )
        state["epoch_loss"] += loss.item() * 6
        logstr = "batch %4d | loss %5.2f | %4dms | ^ %4dms" % (
            i + 1,
            loss.item(),
            1000 * (tic_4 - tic_0),
            1000 * (tic_4 - tic_3),
        )
        print("%-80s" % logstr, end="\r")
        tfb_logger.scalar_summary("loss/total", loss.item(), state["step"])
        state["step"] += 6
        return loss

    return train, lambda i: (
        i + 1,
        torch.from_numpy(normal(6, 5, seed=i)),
        torch.from_numpy(integers(12, 6, 4, seed=i)),
        torch.from_numpy(integers(4, 6, seed=i) + 1),
    )
