"""`python -m proreus` is `proreus`."""

import sys

from proreus.cli.main import main

sys.exit(main())
