"""`torch.utils.serialization.config`: what a program sets for all files that it saves and loads."""

from fusegrad.eager.io.options import load as load, save as save
