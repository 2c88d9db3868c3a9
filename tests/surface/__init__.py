"""What a user relies on, stored as text: flags, figures, run folders, environments, the REST door, errors.

The code may be moved and rewritten behind all of this: these tests import nothing of the package but its
command line (`proreus.cli.main`) and `proreus.envs`. Where a change for users is meant, write the text anew:

    PROREUS_PIN=1 python -m pytest tests/surface       # all but the old runs
    PROREUS_PIN=runs python -m pytest tests/surface    # the old runs too, where runs may no longer resume

and `git diff tests/surface/pinned` says what changed. On another processor, whose linear algebra rounds
otherwise, PROREUS_LOOSE=1 compares the weights of runs as numbers and not as bytes.
"""
