"""Data sets of random images, a few thousand each, in the format of those they stand for."""

import numpy as np
import torch
from PIL import Image
from torch.utils.data import Dataset


class _Images(Dataset):
    """Images of noise, with labels. shape: height, width and, if there are more than one, channels."""

    shape: tuple = (28, 28)
    number = 4096

    def __init__(self, root=None, train=True, transform=None, target_transform=None, download=False, **rest):
        self.transform, self.target_transform = transform, target_transform
        draw = np.random.default_rng(0 if train else 1)
        pixels = draw.integers(0, 256, (self.number, *self.shape), dtype=np.uint8)
        self.data = torch.from_numpy(pixels)
        self.targets = torch.from_numpy(draw.integers(0, 10, self.number))
        self.classes = [str(i) for i in range(10)]
        # What they were called before.
        self.train_data = self.test_data = self.data
        self.train_labels = self.test_labels = self.targets

    def __len__(self):
        return self.number

    def __getitem__(self, index):
        image, target = Image.fromarray(self.data[index].numpy()), int(self.targets[index])
        image = image if self.transform is None else self.transform(image)
        return image, target if self.target_transform is None else self.target_transform(target)


class MNIST(_Images):
    pass


class FashionMNIST(_Images):
    pass


class CIFAR10(_Images):
    shape = (32, 32, 3)


class FakeData(_Images):
    """Source: `torchvision.datasets.FakeData`."""

    def __init__(self, size=1000, image_size=(3, 224, 224), num_classes=10, transform=None, **rest):
        self.number, self.shape = min(size, 256), (*image_size[1:], image_size[0])
        super().__init__(transform=transform)
        self.targets %= num_classes
