"""The version, and that nothing here was built for another device; as `torch.version`."""

__all__ = ["cuda", "debug", "hip", "xpu"]

debug = False
cuda: str | None = None
hip: str | None = None
xpu: str | None = None
