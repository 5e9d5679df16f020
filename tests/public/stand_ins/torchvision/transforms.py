"""The transforms of images that scripts use, of PIL images and of tensors of channels, rows and columns."""

import random

import numpy as np
import torch
from PIL import Image, ImageOps


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image):
        for transform in self.transforms:
            image = transform(image)
        return image


class ToTensor:
    def __call__(self, image):
        pixels = np.asarray(image)
        pixels = pixels[None] if pixels.ndim == 2 else pixels.transpose(2, 0, 1)
        return torch.from_numpy(np.ascontiguousarray(pixels, dtype=np.float32) / 255)


class Normalize:
    def __init__(self, mean, std, inplace=False):
        self.mean, self.std = (torch.tensor(v, dtype=torch.float32).reshape(-1, 1, 1) for v in (mean, std))

    def __call__(self, image):
        return (image - self.mean) / self.std


class Lambda:
    def __init__(self, function):
        self.function = function

    def __call__(self, image):
        return self.function(image)


class Resize:
    """An image whose shorter side has so many pixels, or one of a height and a width."""

    def __init__(self, size, interpolation=Image.BILINEAR):
        self.size, self.interpolation = size, interpolation

    def __call__(self, image):
        if isinstance(self.size, int):
            least = min(image.size)
            size = tuple(self.size * side // least for side in image.size)
        else:
            size = tuple(reversed(self.size))
        return image.resize(size, self.interpolation)


class CenterCrop:
    def __init__(self, size):
        self.size = (size, size) if isinstance(size, int) else tuple(size)

    def __call__(self, image):
        return ImageOps.fit(image, tuple(reversed(self.size)), centering=(0.5, 0.5))


class Pad:
    def __init__(self, padding):
        self.padding = padding

    def __call__(self, image):
        return ImageOps.expand(image, self.padding)


class RandomCrop:
    def __init__(self, size, padding=0):
        self.size, self.padding = size, padding

    def __call__(self, image):
        image = ImageOps.expand(image, self.padding)
        left, top = (random.randint(0, side - self.size) for side in image.size)
        return image.crop((left, top, left + self.size, top + self.size))


class RandomHorizontalFlip:
    def __call__(self, image):
        return ImageOps.mirror(image) if random.random() < 0.5 else image


class Grayscale:
    def __call__(self, image):
        return image.convert("L")


class ToPILImage:
    def __call__(self, image):
        pixels = (image * 255).byte().numpy().transpose(1, 2, 0)
        return Image.fromarray(pixels.squeeze())
