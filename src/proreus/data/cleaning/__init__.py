"""Raw request logs made into tables that worlds can play."""
