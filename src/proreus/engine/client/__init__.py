"""The names of document 002 for programs: containers, images, pods, nodes and schedulers."""
