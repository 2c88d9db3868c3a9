"""One revisioned key-value protocol; SQLite and etcd behind it."""
