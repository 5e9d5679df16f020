"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.masked import (
    amax as amax,
    amin as amin,
    argmax as argmax,
    argmin as argmin,
    cumprod as cumprod,
    cumsum as cumsum,
    log_softmax as log_softmax,
    logaddexp as logaddexp,
    logsumexp as logsumexp,
    mean as mean,
    median as median,
    norm as norm,
    normalize as normalize,
    prod as prod,
    softmax as softmax,
    softmin as softmin,
    std as std,
    sum as sum,
    var as var,
)
