"""skorch: a classifier like scikit-learn's, in a pipeline."""

import numpy as np
import torch
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from skorch import NeuralNetClassifier

from libraries.case import Case, numbers, whole_numbers


def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4))


def steps() -> Case:
    net = NeuralNetClassifier(network(), criterion=torch.nn.CrossEntropyLoss, train_split=None).initialize()
    x, labels = numbers(16, 8), whole_numbers(4, 16)
    return Case(net.module_, lambda: net.train_step((x, labels))["loss"].detach())


def fitted() -> Case:
    model = network()

    def values() -> dict[str, np.ndarray]:
        net = NeuralNetClassifier(
            model,
            criterion=torch.nn.CrossEntropyLoss,
            max_epochs=20,
            lr=0.05,
            batch_size=8,
            verbose=0,
            train_split=None,
        )
        chain = make_pipeline(StandardScaler(), net)
        x, labels = numbers(32, 8).numpy(), whole_numbers(4, 32).numpy()
        chain.fit(x, labels)
        return {"classes": chain.predict(x), "losses": np.array(net.history[:, "train_loss"])}

    return Case(model, values=values)


CASES = {"steps": steps, "in a pipeline": fitted}
