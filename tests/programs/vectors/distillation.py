"""A student that learns from a teacher's soft labels."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from programs.common import integers, normal, seeded


def distillation_loss(student_logits, labels, teacher_logits, T=4.0, alpha=0.7):
    soft = F.kl_div(
        F.log_softmax(student_logits / T, dim=1), F.softmax(teacher_logits / T, dim=1), reduction="batchmean"
    )
    return soft * (T * T * alpha) + F.cross_entropy(student_logits, labels) * (1.0 - alpha)


def steps():
    teacher = seeded(nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 4)))
    student = seeded(nn.Sequential(nn.Linear(10, 8), nn.Hardtanh(), nn.Linear(8, 4)), seed=1)
    optimizer = torch.optim.Adam(student.parameters(), lr=1e-3)

    def train(inputs, labels):
        teacher.eval()
        student.train()
        optimizer.zero_grad()
        with torch.no_grad():
            teacher_logits = teacher(inputs)
        student_logits = student(inputs)
        loss = distillation_loss(student_logits, labels, teacher_logits)
        loss.backward()
        optimizer.step()
        return loss

    return train, lambda i: (
        torch.from_numpy(normal(8, 10, seed=i)),
        torch.from_numpy(integers(4, 8, seed=i)),
    )
