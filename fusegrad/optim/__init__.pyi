"""Written by tools/write_stubs.py from what is there at run time; not to be edited."""

from fusegrad.eager.optim.adafactor import Adafactor as Adafactor
from fusegrad.eager.optim.adaptive import (
    Adam as Adam,
    Adamax as Adamax,
    AdamW as AdamW,
    NAdam as NAdam,
    RAdam as RAdam,
)
from fusegrad.eager.optim.descent import (
    ASGD as ASGD,
    SGD as SGD,
    Adadelta as Adadelta,
    Adagrad as Adagrad,
    RMSprop as RMSprop,
    Rprop as Rprop,
)
from fusegrad.eager.optim.lbfgs import LBFGS as LBFGS
from fusegrad.eager.optim.muon import Muon as Muon
from fusegrad.eager.optim.optimizer import Optimizer as Optimizer
from fusegrad.optim import lr_scheduler as lr_scheduler, optimizer as optimizer, swa_utils as swa_utils
