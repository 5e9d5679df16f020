"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.library.api import (
    CustomOpDef as CustomOpDef,
    Library as Library,
    custom_op as custom_op,
    define as define,
    impl as impl,
    opcheck as opcheck,
    register_autograd as register_autograd,
    register_fake as register_fake,
    register_kernel as register_kernel,
    register_vmap as register_vmap,
)
