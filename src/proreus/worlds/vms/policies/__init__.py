"""Rules and learned policies that place virtual machines."""
