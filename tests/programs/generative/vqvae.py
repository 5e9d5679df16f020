"""Vector quantization with a straight-through gradient; parts of the loss are kept by the module."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import normal, seeded


class VectorQuantizer(nn.Module):
    def __init__(self, num_embeddings, embedding_dim, commitment_cost=0.25):
        super().__init__()
        self._embedding = nn.Embedding(num_embeddings, embedding_dim)
        self._num_embeddings, self._commitment_cost = num_embeddings, commitment_cost

    def forward(self, inputs):
        flat_input = inputs.view(-1, self._embedding.embedding_dim)
        distances = (
            torch.sum(flat_input**2, dim=1, keepdim=True)
            + torch.sum(self._embedding.weight**2, dim=1)
            - 2 * torch.matmul(flat_input, self._embedding.weight.t())
        )
        encoding_indices = torch.argmin(distances, dim=1).unsqueeze(1)
        encodings = torch.zeros(encoding_indices.shape[0], self._num_embeddings, device=inputs.device)
        encodings.scatter_(1, encoding_indices, 1)
        quantized = torch.matmul(encodings, self._embedding.weight).view(inputs.shape)
        e_latent_loss = F.mse_loss(quantized.detach(), inputs)
        q_latent_loss = F.mse_loss(quantized, inputs.detach())
        self.loss = q_latent_loss + self._commitment_cost * e_latent_loss
        avg_probs = torch.mean(encodings, dim=0)
        self.perplexity = torch.exp(-torch.sum(avg_probs * torch.log(avg_probs + 1e-10)))
        return inputs + (quantized - inputs).detach()


def steps():
    quantizer = seeded(VectorQuantizer(8, 4))
    encoder, decoder = seeded(nn.Linear(6, 4), seed=1), seeded(nn.Linear(4, 6), seed=2)
    parameters = [p for part in (encoder, quantizer, decoder) for p in part.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-2, amsgrad=False)

    def train(data):
        optimizer.zero_grad()
        data_recon = decoder(quantizer(encoder(data)))
        loss = F.mse_loss(data_recon, data) / 0.5 + quantizer.loss
        loss.backward()
        optimizer.step()
        return loss, quantizer.perplexity

    return train, lambda i: (torch.from_numpy(normal(10, 6, seed=i)),)
