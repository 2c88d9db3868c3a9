"""One step of all lanes as two Triton kernels, one program a lane. Imports triton: for CUDA devices.

The rules are those of `worlds.pods.training.device`, whose operations over all lanes at once are what these
kernels are held against. A program branches and loops as the host's kernels do, so that a lane with nothing
to do costs nothing, and reads a column once where an operation over all lanes passes over it a dozen times.

All programs of `move` are one warp: what one thread writes the others read next, in the order of the program.
`tl.debug_barrier` says where that matters.
"""
