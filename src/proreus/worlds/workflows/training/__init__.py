"""What learners need of the world `workflows`: lanes, a goal, judges."""
