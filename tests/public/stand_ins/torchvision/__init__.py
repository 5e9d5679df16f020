"""In torchvision's place: data sets of random images, the usual transforms, and untrained networks."""

from torchvision import datasets, models, transforms, utils

__all__ = ["datasets", "models", "transforms", "utils"]
