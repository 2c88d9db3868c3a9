"""Where work comes from: strict readers of public trace formats, a calibrated generator, a catalogue.

Every reader returns the types of `proreus.model` and raises `InputError` with file, line and field for
anything it cannot make sense of. Worlds and the command line call `catalogue.load`, `generate.generate`
and `manifests.read_manifests`; nothing here knows a simulator or a policy.
"""
