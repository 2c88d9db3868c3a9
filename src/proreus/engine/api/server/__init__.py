"""What every request passes: authentication, authorization, limits, audit; requests and replies."""
