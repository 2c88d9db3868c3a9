"""What happens next: simulators that run between decisions and hand out observations."""
