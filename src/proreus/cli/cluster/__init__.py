"""What the verbs that talk to a running cluster share: where it is, how it is asked, how it is shown."""
