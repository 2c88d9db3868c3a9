"""The features that learned pod policies see, in training, serving and the engine alike."""
