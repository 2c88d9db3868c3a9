"""The features that learned policies over windows see, in training, environments and play alike."""
