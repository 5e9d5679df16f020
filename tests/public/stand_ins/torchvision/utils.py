"""Pictures that nobody looks at."""


def save_image(tensor, path, *args, **options):
    """Nothing is written."""


def make_grid(tensor, *args, **options):
    """The first image."""
    return tensor[0]
