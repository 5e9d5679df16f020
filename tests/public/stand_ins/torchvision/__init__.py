"""In torchvision's place: data sets of random images, the usual transforms, and nothing that saves."""

from torchvision import datasets, transforms, utils

__all__ = ["datasets", "transforms", "utils"]
