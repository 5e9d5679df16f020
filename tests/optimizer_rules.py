"""Optimizers by name, of every kind that steps in a replay."""

from __future__ import annotations

import fusegrad as fg

RULES = {
    "sgd": lambda m: fg.optim.SGD(m.parameters(), lr=0.1),
    "momentum": lambda m: fg.optim.SGD(
        m.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, nesterov=True
    ),
    "dampened": lambda m: fg.optim.SGD(m.parameters(), lr=0.1, momentum=0.9, dampening=0.2, maximize=True),
    "adam": lambda m: fg.optim.Adam(m.parameters(), lr=0.02, weight_decay=0.1, amsgrad=True),
    "adamw": lambda m: fg.optim.AdamW(m.parameters(), lr=0.02),
    "adamax": lambda m: fg.optim.Adamax(m.parameters(), lr=0.02),
    "radam": lambda m: fg.optim.RAdam(m.parameters(), lr=0.02),
    "rmsprop": lambda m: fg.optim.RMSprop(m.parameters(), lr=0.02, momentum=0.5, centered=True),
    "adagrad": lambda m: fg.optim.Adagrad(m.parameters(), lr=0.1),
    "adadelta": lambda m: fg.optim.Adadelta(m.parameters(), lr=1.0),
}
