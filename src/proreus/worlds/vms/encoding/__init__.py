"""The features that learned policies see of servers and machines."""
