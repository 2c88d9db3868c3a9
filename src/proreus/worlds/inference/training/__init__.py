"""What learners need of the world `inference`: windows of days, a goal, lanes, judges."""
