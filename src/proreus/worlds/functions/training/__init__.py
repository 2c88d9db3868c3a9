"""What learners need of the world `functions`: lanes, a goal, judges."""
