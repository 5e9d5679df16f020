"""`python -m fusegrad`: the same as the command `fusegrad`."""

import sys

from fusegrad.cli import main

sys.exit(main())
