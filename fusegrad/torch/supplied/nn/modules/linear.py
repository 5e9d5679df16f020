"""`torch.nn.modules.linear`."""

from fusegrad.eager.nn.transformer import NonDynamicallyQuantizableLinear as NonDynamicallyQuantizableLinear
