"""`proreus up` with this machine as the node: real containers, from an archive to nothing left."""
